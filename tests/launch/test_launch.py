"""The recipes in launch/: read by the real SkyPilot and by ShellCheck, and run with stand-ins for gcloud and the TPU's Python.

Nothing here reaches a cloud: a recipe is right as far as its tool can tell without an account.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sky

TEMPLATE = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ANSWER = {
    "status": "ok",
    "hardware": {"accelerator": "v5litepod-64", "runtime": "v2-alpha-tpuv5-lite", "mesh": "fsdp=64"},
}


@pytest.fixture(scope="session")
def baked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("baked")
    command = [str(BIN / "cookiecutter"), str(TEMPLATE), "--no-input", "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture
def repository(baked: Path, tmp_path: Path) -> Path:
    """A copy of the repository that the template makes, for one test."""
    return shutil.copytree(baked, tmp_path / "repository")


def stand_in(path: Path, lines: str) -> None:
    """A program that writes its name and arguments to $LOG, and does what ``lines`` say."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/bash\necho "${{0##*/}} $*" >> "$LOG"\n{lines}\n')
    path.chmod(0o755)


def launch(repository: Path, script: str, *arguments: str, **variables: str) -> tuple[int, str, list[str]]:
    """Run a recipe with the stand-ins in ``stand-ins`` first on the path; its exit code, errors, and what it called."""
    log = repository.parent / "log.txt"
    log.touch()
    paths = f"{repository.parent / 'stand-ins'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths, "LOG": str(log), "HOME": str(repository.parent), **variables}
    command = ["bash", f"launch/{script}", *arguments]
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, log.read_text().splitlines()


def test_skypilot_reads_the_task(repository: Path) -> None:
    task = sky.Task.from_yaml(str(repository / "launch" / "tpu.sky.yaml"))
    (resources,) = task.resources
    assert str(resources.cloud) == "GCP"
    assert resources.accelerators == {"tpu-v5litepod-8": 1}
    assert resources.accelerator_args == {"runtime_version": "v2-alpha-tpuv5-lite", "tpu_vm": True}
    assert task.workdir == "."
    assert task.envs == {"MESH": "fsdp=8", "STEPS": "1000"}
    assert task.run == 'bash launch/on_tpu.sh --steps "$STEPS" --checkpoint checkpoints/last\n'


def test_skypilot_refuses_a_task_with_a_key_that_it_does_not_know(repository: Path) -> None:
    path = repository / "launch" / "tpu.sky.yaml"
    path.write_text(path.read_text().replace("workdir: .", "work-dir: ."))
    with pytest.raises(ValueError, match="work-dir"):
        sky.Task.from_yaml(str(path))


@pytest.mark.parametrize("script", ["gcloud.sh", "on_tpu.sh"])
def test_shellcheck_has_nothing_to_say(repository: Path, script: str) -> None:
    command = [str(BIN / "shellcheck"), str(repository / "launch" / script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_gcloud_makes_what_fit_answered(repository: Path) -> None:
    (repository / "reports" / "xla_fit").mkdir(parents=True)
    (repository / "reports" / "xla_fit" / "fit.json").write_text(json.dumps(ANSWER))
    stand_in(repository.parent / "stand-ins" / "gcloud", "")
    stand_in(repository / ".nox" / "env" / "bin" / "python", "")
    code, errors, called = launch(repository, "gcloud.sh", "--steps", "1000", ZONE="us-west4-a", NAME="toy")
    assert (code, errors) == (0, "")
    assert [line.split()[:5] for line in called[:-1]] == [
        ["gcloud", "compute", "tpus", "tpu-vm", what] for what in ("create", "scp", "ssh", "scp")
    ]
    assert called[0].endswith("toy --zone us-west4-a --accelerator-type v5litepod-64 --version v2-alpha-tpuv5-lite")
    assert called[2].endswith("cd work && MESH=fsdp=64 bash launch/on_tpu.sh --steps 1000")
    assert called[-1] == "python -m xla_sim report --compare reports/xla_sim reports/tpu"


@pytest.mark.parametrize("answer", [None, {**ANSWER, "status": "oom"}, "torn"])
def test_gcloud_makes_nothing_without_an_answer_that_fits(repository: Path, answer: Any) -> None:
    (repository / "reports" / "xla_fit").mkdir(parents=True)
    if answer is not None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (repository / "reports" / "xla_fit" / "fit.json").write_text(text)
    stand_in(repository.parent / "stand-ins" / "gcloud", "")
    code, errors, called = launch(repository, "gcloud.sh", ZONE="us-west4-a")
    assert (code, called) == (1, [])
    assert errors == "reports/xla_fit/fit.json is no answer that fits: run nox -s tpu_fit first\n"


def test_gcloud_says_where_there_are_chips_that_it_has_no_vm_with(repository: Path) -> None:
    (repository / "reports" / "xla_fit").mkdir(parents=True)
    answer = {**ANSWER, "topology": "v7x:2x2x1", "hardware": None}
    (repository / "reports" / "xla_fit" / "fit.json").write_text(json.dumps(answer))
    stand_in(repository.parent / "stand-ins" / "gcloud", "")
    code, errors, called = launch(repository, "gcloud.sh", ZONE="us-west4-a")
    assert (code, called) == (1, [])
    assert errors == (
        "v7x:2x2x1 is no TPU VM that gcloud can make: Google Cloud offers these chips through GKE and Compute Engine "
        "(https://docs.cloud.google.com/tpu/docs/tpu7x); run launch/on_tpu.sh on each host\n"
    )


def test_the_tpu_runs_the_expectations_and_then_the_training(repository: Path) -> None:
    made = repository.parent / "tpu" / "bin"
    tools = repository.parent / "stand-ins"
    stand_in(tools / "tool", 'echo "  PJRT_DEVICE=$PJRT_DEVICE" >> "$LOG"')
    stand_in(tools / "python3", f"mkdir -p {made}; cp {tools}/tool {made}/pip; cp {tools}/tool {made}/python")
    code, errors, called = launch(repository, "on_tpu.sh", "--steps", "1000", MESH="fsdp=8")
    assert (code, errors) == (0, "")
    pins = json.loads((TEMPLATE / "cookiecutter.json").read_text())["__stacks"]
    version = next(iter(pins.values()))["torch"]
    train = "src/toy_tpu_research/train.py"
    assert called == [
        "python3 -m venv --system-site-packages " + str(made.parent),
        f"pip install --quiet torch=={version} torch_xla[tpu]=={version} numpy --editable=./vendor/xla-sim",
        "  PJRT_DEVICE=",
        "pip install --quiet --no-deps --editable .",
        "  PJRT_DEVICE=",
        f"python -m xla_sim run --fail-on never --out reports/tpu {train} --steps 20 --mesh fsdp=8",
        "  PJRT_DEVICE=TPU",
        f"python {train} --mesh fsdp=8 --steps 1000",
        "  PJRT_DEVICE=TPU",
    ]


def test_the_tpu_is_told_its_mesh(repository: Path) -> None:
    code, errors, called = launch(repository, "on_tpu.sh")
    assert (code, called) == (1, [])
    assert "say how the chips are arranged" in errors
