"""Does training on many chips give what one device gives? Eight virtual ones stand in for them, each run in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from deterministic import build_deterministic_model

from << cookiecutter.package_name >> import train
from << cookiecutter.package_name >>.data import batches
from << cookiecutter.package_name >>.model import compute_loss

PATH = os.pathsep.join([str(Path(train.__file__).parents[1]), str(Path(__file__).parent)])

# Dropout is off, because it draws other numbers on another mesh.
PROGRAM = """
from deterministic import build_deterministic_model
from << cookiecutter.package_name >> import train
train.build_model = build_deterministic_model
train.main()
"""


def run(*arguments: str, devices: int = 8) -> subprocess.CompletedProcess[str]:
    """Run train.py on so many virtual devices: SPMD is switched on once per process, so each run needs a new one."""
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices), "PYTHONPATH": PATH}
    command = [sys.executable, "-c", PROGRAM, "--log-every=1", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def losses(done: subprocess.CompletedProcess[str]) -> list[float]:
    assert done.returncode == 0, done.stderr
    return [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("step")]


def read_folder(path: Path) -> dict[str, torch.Tensor]:
    """The model's weights in a checkpoint that --mesh wrote."""
    import torch.distributed.checkpoint as dcp

    known = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    state: dict[str, Any] = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in known.items()
        if name.startswith("model.") and hasattr(entry, "size")
    }
    dcp.load(state, storage_reader=dcp.FileSystemReader(path), no_dist=True)
    return {name.partition(".")[2]: tensor for name, tensor in state.items()}


def test_a_mesh_gives_the_losses_and_the_checkpoint_of_one_device(tmp_path: Path) -> None:
    alone = run("--steps=4", f"--checkpoint={tmp_path / 'alone.pt'}", devices=1)
    together = run("--steps=4", "--mesh=fsdp=8", f"--checkpoint={tmp_path / 'together'}")
    assert losses(together) == pytest.approx(losses(alone), rel=1e-3)
    expected = torch.load(tmp_path / "alone.pt", weights_only=True)["model"]
    found = read_folder(tmp_path / "together")
    assert loss_of(found) == pytest.approx(loss_of(expected), rel=1e-3)


def loss_of(weights: dict[str, torch.Tensor]) -> float:
    """Of the first batch, in eager PyTorch, with these weights."""
    model = build_deterministic_model()
    model.load_state_dict(weights)
    with torch.no_grad():
        return compute_loss(model, next(batches(64, seed=0))).item()


def test_training_goes_on_from_one_mesh_to_another(tmp_path: Path) -> None:
    whole = run("--steps=5", devices=1)
    run("--steps=3", "--mesh=fsdp=8", f"--checkpoint={tmp_path / 'three'}")
    rest = run("--steps=5", "--mesh=data=2,fsdp=2", f"--resume={tmp_path / 'three'}", devices=4)
    assert losses(rest) == pytest.approx(losses(whole)[3:], rel=1e-3)


def test_a_mesh_that_does_not_fit_is_refused() -> None:
    assert "--mesh fsdp=4 is 4 chips, and there are 8." in run("--mesh=fsdp=4").stderr
    assert "--batch-size 60 can't be divided over 8 chips" in run("--mesh=fsdp=8", "--batch-size=60").stderr
    assert "'tensor=8' is no mesh; write fsdp=8, or data=2,fsdp=4" in run("--mesh=tensor=8").stderr
