#!/usr/bin/env -S uv run
# /// script
# requires-python = ">=3.10"
#<<% if cookiecutter.simulator == "vendored"
# dependencies = ["nox[rattler,uv]>=2026.10.20", "pyyaml"]
#<<% else
# dependencies = ["nox[rattler,uv]>=2026.10.20", "pyyaml", "xla-sim @ git+SIMULATOR_SOURCE"]
#<<% endif
# ///
"""Is the training step ready for a TPU? Each session answers a part of it, on a machine that has none."""

from __future__ import annotations

import os
#<<% if cookiecutter.simulator == "vendored"
import sys
#<<% endif
from pathlib import Path

import nox
from nox.command import CommandFailed

#<<% if cookiecutter.simulator == "vendored"
sys.path.insert(0, str(Path(__file__).parent / "vendor" / "xla-sim"))
#<<% endif
from xla_sim.environment import nox_env

nox.needs_version = ">=2026.10.20"
nox.options.error_on_missing_interpreters = True
nox.options.default_venv_backend = "uv|virtualenv"

PACKAGE = "<< cookiecutter.package_name >>"
TRAIN = f"src/{PACKAGE}/train.py"
REPORTS = Path("reports/xla_sim")

PROJECT = nox.project.load_toml("pyproject.toml")
SIMULATION = nox_env.plan("env", PROJECT)


@nox.session(default=False, **SIMULATION.session_options)
def env(session: nox.Session) -> None:
    """Build the simulation's environment from environment.yml, or reuse it."""
    nox_env.build(session, SIMULATION)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the types of the code."""
    session.install(*nox.project.dependency_groups(PROJECT, "lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session(python=False, requires=["env"])
def tests(session: nox.Session) -> None:
    """Test the training code: it learns, it resumes, it is the same on XLA and in eager PyTorch."""
    in_env(session, "-m", "pytest", "--ignore=tests/test_xla_simulation.py", *session.posargs)


@nox.session(python=False, requires=["env"])
def xla_sim(session: nox.Session) -> None:
    """Simulate the training step on XLA: graphs, compilations, syncs, fallbacks. The main question."""
    try:  # the verdict first: a step that a TPU would punish turns tests red, and they say less of why
        simulate(session, *session.posargs)
    except CommandFailed:
        in_env(session, "-m", "pytest", "tests/test_xla_simulation.py")
        raise
    in_env(session, "-m", "pytest", "tests/test_xla_simulation.py")


def simulate(session: nox.Session, *arguments: str) -> None:
    """Run train.py under observation; more arguments go to train.py."""
    out = ["--out", str(REPORTS), "--json", str(REPORTS / "report.json")]
    in_env(session, "-m", "xla_sim", "run", *out, TRAIN, "--steps", "20", *arguments)


@nox.session(python=">=3.11,<3.15", reuse_venv=True, default=False)
def tpu_compiler(session: nox.Session) -> None:
    """Build the environment of the TPU compiler, or reuse it."""
    nox_env.build_tpu(session)


@nox.session(python=False, requires=["env", "tpu_compiler"], default=False)
def tpu_compile(session: nox.Session) -> None:
    """Hand the captured graphs to the real TPU compiler: accepted or refused, and does it fit in HBM?"""
    if not (REPORTS / "report.json").exists():
        simulate(session)
    in_env(session, "-m", "xla_sim", "compile", *session.posargs, str(REPORTS))


@nox.session(python=False, requires=["env", "tpu_compiler"], default=False)
def tpu_fit(session: nox.Session) -> None:
    """Ask whether the full-size model fits on a pod slice, sharded. Arguments go to xla_sim fit."""
    out = ["--out", "reports/xla_fit", "--json", "reports/xla_fit/fit.json"]
    in_env(session, "-m", "xla_sim", "fit", *out, *session.posargs)


def in_env(session: nox.Session, *arguments: str, name: str = "env") -> None:
    """Run the Python of an environment, as on a TPU but with PJRT's CPU device."""
    variables = {"PJRT_DEVICE": os.environ.get("PJRT_DEVICE", "CPU")}
    variables["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # torch 2.7 starts a pool of compilers that XLA has no use for
    variables["XLA_SIM_TPU_PYTHON"] = nox_env.python(session, "tpu_compiler")
    session.run(nox_env.python(session, name), *arguments, env=variables, external=True)


STACKS = nox_env.stack_plans(PROJECT)


@nox.session(python=False, requires=sorted(STACKS), default=False)
def stacks(session: nox.Session) -> None:
    """Run the simulation on several versions of torch_xla and put the results side by side."""
    for name in STACKS:
        out = ["--out", f"reports/{name}", "--json", f"reports/{name}/report.json", "--fail-on", "never"]
        in_env(session, "-m", "xla_sim", "run", *out, TRAIN, "--steps", "20", *session.posargs, name=name)
    print(nox_env.side_by_side({name: Path("reports", name, "report.json") for name in STACKS}))


def stack_session(name: str, plan: nox_env.Plan) -> None:
    """Define the session that builds one stack's environment."""

    @nox.session(name=name, default=False, **plan.session_options)
    def build(session: nox.Session) -> None:
        nox_env.build(session, plan)

    build.__doc__ = f"Build the environment of torch_xla {plan.torch} on Python {plan.environment.python} for stacks."


for stack_name, stack_plan in STACKS.items():
    stack_session(stack_name, stack_plan)


if __name__ == "__main__":
    nox.main()
