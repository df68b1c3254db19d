"""Put your own model in, as the generated README says: what a TPU would punish turns red, and nothing else does.

The programs are in own_models/: a convolution with dropout and random labels, a transformer of three padded lengths, and a
model of Hugging Face. One environment runs them all.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import BIN, TEMPLATE, run
from stacks import DEFAULT, MODEL, Channel, Stack, build, channel

pytestmark = pytest.mark.slow
__all__ = ["channel"]  # a fixture

PROGRAMS = Path(__file__).parent / "own_models"
PACKAGE = Path(MODEL).parent
TRANSFORMERS = next(
    line
    for line in re.findall(r'"(.*)"', (TEMPLATE / "pyproject.toml").read_text(encoding="utf-8"))
    if "transformers" in line
)


@pytest.fixture(scope="module")
def stack(channel: Channel, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return build(DEFAULT, channel, tmp_path_factory)


@pytest.fixture(scope="module")
def with_transformers(stack: Stack) -> Stack:
    """The same environment, which has transformers from now on."""
    command = [BIN / "uv", "pip", "install", "--quiet", "--python", stack.python, TRANSFORMERS]
    done = run(*command, cwd=stack.repository)
    if done.returncode:
        pytest.skip(f"{TRANSFORMERS} can't be installed here: {done.stderr.strip()[-300:]}")
    return stack


def put_in(stack: Stack, program: str, copy: Path, shapes: int = 1) -> Stack:
    """Follow the README in a copy: write model.py and data.py, delete ToyModel's tests, say how many shapes there are."""
    shutil.copytree(stack.repository, copy, ignore=shutil.ignore_patterns(".nox", ".git", "reports", "*cache*"))
    for name in ("model.py", "data.py"):
        shutil.copy(PROGRAMS / program / name, copy / PACKAGE / name)
    (copy / "tests" / "test_toy_model.py").unlink()
    edit(copy / "pyproject.toml", "warmup-steps = 2", f"warmup-steps = {shapes + 1}")
    return replace(stack, repository=copy)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is not once in {path}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def python(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a session of the repository runs, in the environment that there is."""
    variables = {
        "PYTHONPATH": str(stack.repository / "src"),
        "PJRT_DEVICE": "CPU",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    return run(stack.python, *arguments, cwd=stack.repository, **variables)


def failures(stack: Stack, *tests: str) -> list[str]:
    """The names of the tests that are red."""
    done = python(stack, "-m", "pytest", "-q", *tests)
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]
    return re.findall(r"^FAILED \S+::(\S+)", done.stdout, flags=re.MULTILINE)


def told(stack: Stack) -> list[tuple[str, str]]:
    """Rule and severity of what the simulator says of train.py; the exit code must agree with it."""
    done = python(stack, "-m", "xla_sim", "run", str(PACKAGE / "train.py"), "--steps", "20")
    report = json.loads((stack.repository / "reports" / "xla_sim" / "report.json").read_text(encoding="utf-8"))
    found = [(item["rule"], item["severity"]) for item in report["findings"]]
    failing = [rule for rule, severity in found if severity != "info"]
    assert done.returncode == bool(failing), done.stdout[-3000:] + done.stderr[-3000:]
    return found


def findings(stack: Stack) -> list[tuple[str, str]]:
    """What makes nox -s xla_sim fail: the notes aside."""
    return [(rule, severity) for rule, severity in told(stack) if severity != "info"]


def check_that_all_is_green(stack: Stack, *tests: str) -> None:
    """nox -s xla_sim, and of nox -s tests what is named, without what nox costs."""
    assert failures(stack, "tests/test_xla_simulation.py", *tests) == []
    assert findings(stack) == []


def test_a_convolution_with_dropout_and_random_labels_is_green(stack: Stack, tmp_path: Path) -> None:
    check_that_all_is_green(
        put_in(stack, "convolution", tmp_path / "copy"), "tests/test_train.py", "tests/test_mesh.py"
    )


def test_a_dictionary_of_padded_sequences_in_three_lengths_is_green(stack: Stack, tmp_path: Path) -> None:
    check_that_all_is_green(
        put_in(stack, "buckets", tmp_path / "copy", shapes=3)
    )  # a process compiles for half a minute


def test_a_hugging_face_model_is_green(with_transformers: Stack, tmp_path: Path) -> None:
    check_that_all_is_green(put_in(with_transformers, "hugging_face", tmp_path / "copy"))


def test_a_value_that_is_read_in_the_step_is_red(stack: Stack, tmp_path: Path) -> None:
    own = put_in(stack, "convolution", tmp_path / "copy")
    loss = "nn.functional.cross_entropy(model(images), labels)"
    edit(own.repository / MODEL, f"return {loss}", f"loss = {loss}\n    print(loss.item())\n    return loss")
    assert "test_nothing_runs_before_the_step_mark" in failures(own, "tests/test_xla_simulation.py")
    assert findings(own) == [("host-sync", "warning")]


def test_shapes_that_nobody_declared_are_red(stack: Stack, tmp_path: Path) -> None:
    """Three lengths where pyproject.toml still says that there is one: a failing test, and a note as each comes again."""
    own = put_in(stack, "buckets", tmp_path / "copy", shapes=1)
    assert failures(own, "tests/test_xla_simulation.py") == ["test_nothing_is_compiled_after_warm_up"]
    assert ("graph-recompile", "info") in told(own)
    assert findings(own) == []
