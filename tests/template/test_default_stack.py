"""The default stack from baking to the verdict, and every session of the repository that it makes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TEMPLATE, run
from stacks import (
    DEFAULT,
    MUTATIONS,
    STACKS,
    TRAIN,
    Channel,
    Mutation,
    Stack,
    build,
    channel,
    check_that_it_is_red,
    check_the_main_job,
    check_the_pins,
)

pytestmark = pytest.mark.slow
__all__ = ["channel"]  # a fixture


@pytest.fixture(scope="module")
def stack(channel: Channel, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return build(DEFAULT, channel, tmp_path_factory)


def test_the_environment_has_the_pinned_versions(stack: Stack) -> None:
    check_the_pins(stack)


def test_nox_xla_sim_is_green_and_writes_its_reports(stack: Stack) -> None:
    check_the_main_job(stack)


def test_a_bad_step_is_told_before_the_tests_turn_red(stack: Stack, tmp_path: Path) -> None:
    """The README's own example of one: the session fails, and its verdict stands first."""
    copy = tmp_path / "copy"
    shutil.copytree(stack.repository, copy, ignore=shutil.ignore_patterns(".nox", ".git", "reports", "*cache*"))
    train = copy / TRAIN
    text = train.read_text(encoding="utf-8")
    assert text.count("    loss.backward()\n") == 1
    bad = '    print("loss", loss.item())\n    loss.backward()\n'
    train.write_text(text.replace("    loss.backward()\n", bad), encoding="utf-8")
    environments = stack.repository / ".nox"
    done = run("nox", "--no-color", "--envdir", environments, "-s", "xla_sim", cwd=copy, NOX_SCRIPT_MODE="none")
    assert done.returncode == 1, done.stderr[-3000:]
    assert 0 < done.stdout.index("XLA201 host-sync") < done.stdout.index("test session starts")
    report = json.loads((copy / "reports" / "xla_sim" / "report.json").read_text(encoding="utf-8"))
    assert [finding["rule"] for finding in report["findings"]] == ["host-sync"]


def session(stack: Stack, *names: str, options: tuple[str, ...] = ()) -> str:
    """Run sessions of the repository, and return what they printed."""
    done = run("nox", "--no-color", *options, "-s", *names, cwd=stack.repository, NOX_SCRIPT_MODE="none")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_the_simulation_tests_run_as_a_script(stack: Stack) -> None:
    """python tests/test_xla_simulation.py, as CI of the original write-up does it."""
    command = [str(stack.python), "tests/test_xla_simulation.py", "-k", "device or step_mark"]
    done = subprocess.run(command, cwd=stack.repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "test_the_device_is_xla PASSED" in done.stdout


def test_lint_and_tests_are_green(stack: Stack) -> None:
    """With xla_sim, that is all that nox does without arguments."""
    session(stack, "lint", "tests")


def test_plain_pytest_is_green(stack: Stack) -> None:
    """What a person types first: the placeholders of fit and the simulation then share one process."""
    command = [str(stack.python), "-m", "pytest", "-q", "tests/test_fit.py", "tests/test_xla_simulation.py"]
    done = subprocess.run(command, cwd=stack.repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_tpu_compiler_accepts_the_training_step(stack: Stack) -> None:
    """nox -s tpu_compile, in an environment of its own, on what nox -s xla_sim left."""
    session(stack, "tpu_compile")
    results = json.loads((stack.repository / "reports" / "xla_sim" / "compile.json").read_text(encoding="utf-8"))[
        "results"
    ]
    assert {(result["chip"], result["status"]) for result in results} == {("v5e", "ok"), ("v6e", "ok")}


def test_the_toy_model_fits_on_a_slice(stack: Stack) -> None:
    """nox -s tpu_fit with what pyproject.toml says."""
    session(stack, "tpu_fit")
    fit = json.loads((stack.repository / "reports" / "xla_fit" / "fit.json").read_text(encoding="utf-8"))
    assert (fit["status"], fit["topology"], fit["chips"]) == ("ok", "v5e:2x4", 8)


def test_stacks_puts_the_versions_side_by_side(stack: Stack, channel: Channel) -> None:
    missing = {pins["python"] for pins in STACKS.values()} - set(channel[1])
    if missing:
        pytest.skip(f"needs Python {', '.join(sorted(missing))} on this machine to build all three")
    printed = session(stack, "stacks", options=("-fb", "uv")).splitlines()
    table = {line[:13].strip(): line[13:].split() for line in printed}
    assert table["torch_xla"] == [pins["torch"] for pins in STACKS.values()]
    assert table["compilations"] == ["2", "2", "2"]
    assert table["executions"] == ["20", "20", "20"]
    assert table["findings"] == ["none", "none", "none"]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.test.removeprefix("test_"))
def test_each_test_is_red_where_its_behaviour_is_broken(stack: Stack, mutation: Mutation, tmp_path: Path) -> None:
    check_that_it_is_red(stack, mutation, tmp_path / "copy")


def test_there_is_a_mutation_for_every_test() -> None:
    source = (TEMPLATE / "<<cookiecutter.project_slug>>" / "tests" / "test_xla_simulation.py").read_text(
        encoding="utf-8"
    )
    tests = {line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line.startswith("def test_")}
    assert {mutation.test.split("[")[0] for mutation in MUTATIONS} == tests
