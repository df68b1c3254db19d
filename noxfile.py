#!/usr/bin/env -S uv run
# /// script
# requires-python = ">=3.10"
# dependencies = ["nox[rattler,uv]>=2026.10.20"]
# ///
"""The template's own sessions. A generated repository has a noxfile of its own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True

# Importing torch_xla takes twice as long without bytecode, which uv leaves to the first import: not written in containers.
os.environ.setdefault("UV_COMPILE_BYTECODE", "1")

ROOT = Path(__file__).parent
ROOMS = ("hlo", "observe", "compiler", "verdict", "rules", "report", "fit", "doors")  # as in xla-sim/xla_sim
PROJECT = nox.project.load_toml("pyproject.toml")
STACKS = json.loads((ROOT / "cookiecutter.json").read_text(encoding="utf-8"))["__stacks"]
SIMULATION_PYTHON = ">=3.10,<3.14"  # what torch_xla 2.9.0 has wheels for


def group(name: str) -> tuple[str, ...]:
    """The pinned requirements of a dependency group in pyproject.toml."""
    return nox.project.dependency_groups(PROJECT, name)


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Make a repository in demo/ from the default answers and simulate its training step: the main job, start to end."""
    session.install(*(line for line in group("template") if line.startswith(("cookiecutter", "nox"))))
    shutil.rmtree("demo", ignore_errors=True)
    session.run("cookiecutter", ".", "--no-input", "--output-dir", "demo", *session.posargs)
    (repository,) = Path("demo").iterdir()
    with session.chdir(repository):
        session.run("nox", "-s", "xla_sim")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the types of the simulator, the hooks and the tests."""
    session.install(*group("lint"))
    # src/ and tests/ of the generated repository are Python only once they are rendered: session tests lints them then.
    folders = [folder for folder in ("benchmarks", "hooks", "tests") if Path(folder).is_dir()]
    code = [*folders, "noxfile.py", "xla-sim"]
    session.run("ruff", "check", *code)
    session.run("ruff", "format", "--check", *code)
    with session.chdir("xla-sim"):
        session.run("mypy")
    for hook in sorted(Path("hooks").glob("*.py")):
        session.run("mypy", str(hook))


@nox.session
def tests(session: nox.Session) -> None:
    """Test the template (answers, hooks, files, cruft, environments, workflow) and each stack from baking to the verdict."""
    session.install(*group("template"))
    targets = session.posargs or ["tests/template"]
    session.run("pytest", "-n", "2", "--dist", "loadfile", *targets)


@nox.session(python=SIMULATION_PYTHON)
def tests_launch(session: nox.Session) -> None:
    """Test the recipes for the hardware, with SkyPilot's own parser and stand-ins for the clouds."""
    session.install(*group("launch"))
    session.run(
        "pytest", "--disable-warnings", "tests/launch", *session.posargs, env={"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    )


@nox.session(python=SIMULATION_PYTHON, reuse_venv=True, requires=["tpu_compiler"])
def tests_xla(session: nox.Session) -> None:
    """Test the simulator, the TPU compiler's part, the planner and the reports."""
    install_simulation(session)
    targets = session.posargs or [f"tests/{room}" for room in ROOMS]
    session.run("python", "-m", "pytest", "-n", "2", "--dist", "loadfile", *targets, env=variables_for_tests(session))


@nox.session(python=SIMULATION_PYTHON, reuse_venv=True, requires=["tpu_compiler"], default=False)
def cases(session: nox.Session) -> None:
    """Judge a folder of cases with expected.json: print recall and false alarms (nox -s cases -- FOLDER)."""
    install_simulation(session)
    folder = session.posargs or ["tests/rules/cases"]
    session.run("python", "tests/rules/judge_cases.py", *folder, env=variables_for_tests(session))


@nox.session(python=SIMULATION_PYTHON, reuse_venv=True, requires=["tpu_compiler"], default=False)
def bench(session: nox.Session) -> None:
    """Measure ratios, in one run each: benchmarks/*.py, or those that are named (nox -s bench -- rendering)."""
    install_simulation(session)
    session.install(*(line for line in group("template") if line.startswith("cookiecutter")))
    names = session.posargs or sorted(path.stem for path in Path("benchmarks").glob("[a-z]*.py"))
    for name in names:
        session.run("python", f"benchmarks/{name}.py", env=variables_for_tests(session))


@nox.session(python=">=3.11,<3.15", reuse_venv=True, default=False)
def tpu_compiler(session: nox.Session) -> None:
    """Build the environment of the TPU compiler, for tests_xla and bench."""
    session.install("./xla-sim[compiler]")


def install_simulation(session: nox.Session) -> None:
    """Install the default stack, with what the tests of the simulator need besides."""
    stack = STACKS["py312-torch2.9"]
    pins = [f"torch=={stack['torch']}", f"torch_xla=={stack['torch']}", f"torchvision=={stack['torchvision']}"]
    session.install(*pins, stack["numpy"], "-e", "./xla-sim", *group("simulator"))


def variables_for_tests(session: nox.Session) -> dict[str, str]:
    """Where the tests find the simulator and the TPU compiler's Python."""
    compiler = ROOT / session.cache_dir.parent / "tpu_compiler" / "bin" / "python"  # absolute: tests change directory
    return {
        "PJRT_DEVICE": "CPU",
        "XLA_SIM_TPU_PYTHON": os.environ.get("XLA_SIM_TPU_PYTHON", str(compiler)),
    }


if __name__ == "__main__":
    nox.main()
