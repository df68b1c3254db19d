"""What is true of ToyModel and of its data alone. Delete this file with ToyModel: no other knows them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from << cookiecutter.package_name >> import train
from << cookiecutter.package_name >>.data import batches, make_dataset
from << cookiecutter.package_name >>.model import CLASSES, FEATURES, HIDDEN, ToyModel

SOURCE = Path(train.__file__).parents[1]
DEVICES = pytest.mark.parametrize("device", ["cpu", "xla"])


def weights(path: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["model"]
    return found


def test_the_model_gives_a_logit_per_class() -> None:
    assert ToyModel()(torch.zeros(3, FEATURES)).shape == (3, CLASSES)


def test_an_epoch_shows_each_example_once() -> None:
    points, _ = make_dataset(seed=0, examples=24)
    data = batches(8, seed=0, examples=24)
    seen = torch.cat([next(data)[0] for _ in range(3)])
    assert torch.equal(seen.sum(dim=1).sort().values, points.sum(dim=1).sort().values)


def test_the_second_epoch_can_be_entered_at_any_step() -> None:
    from_the_start = batches(8, seed=3, examples=24)
    fifth = [next(from_the_start) for _ in range(6)][5]
    late = next(batches(8, seed=3, first_step=5, examples=24))
    assert torch.equal(fifth[0], late[0])
    assert torch.equal(fifth[1], late[1])


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(ValueError, match="batch size is 25, but the data set has only 24 examples"):
        next(batches(25, seed=0, examples=24))


@DEVICES
def test_training_learns_what_it_was_not_shown(device: str, tmp_path: Path) -> None:
    train.main([f"--device={device}", "--steps=200", f"--checkpoint={tmp_path / 'last.pt'}"])
    model = ToyModel()
    model.load_state_dict(weights(tmp_path / "last.pt"))
    points, labels = make_dataset(seed=0, examples=8192)  # 4096 as trained on and as many more
    accuracy = (model(points[4096:]).argmax(dim=1) == labels[4096:]).float().mean()
    assert accuracy > 0.9


@DEVICES
def test_the_loss_falls(device: str) -> None:
    first, last = (train.main([f"--device={device}", f"--steps={steps}"]) for steps in (1, 60))
    assert last < first / 2


def test_bf16_computes_in_bfloat16() -> None:
    full, half = train.main(["--device=cpu", "--steps=5"]), train.main(["--device=cpu", "--steps=5", "--bf16"])
    assert full != half
    assert half == pytest.approx(full, rel=0.02)  # bfloat16 keeps 8 bits: 1 part in 256


def test_xla_and_eager_pytorch_end_at_the_same_weights(tmp_path: Path) -> None:
    """Both compute in float32, in another order: a few units in the last place at each of the 20 steps."""
    found = {}
    for device in ("xla", "cpu"):
        train.main([f"--device={device}", "--steps=20", f"--checkpoint={tmp_path / device}"])
        found[device] = weights(tmp_path / device)
    torch.testing.assert_close(found["xla"], found["cpu"], rtol=1e-4, atol=1e-4)


def test_the_matrix_products_have_the_shapes_of_the_layers(tmp_path: Path) -> None:
    """XLA_SAVE_TENSORS_FILE writes every graph as HLO text, where both layers' products can be seen."""
    variables = {"XLA_SAVE_TENSORS_FILE": str(tmp_path / "tensors.hlo"), "XLA_SAVE_TENSORS_FMT": "hlo"}
    command = [sys.executable, train.__file__, "--steps=2", "--batch-size=48"]
    subprocess.run(command, env={**os.environ, **variables, "PYTHONPATH": str(SOURCE)}, check=True)
    written = "".join(file.read_text() for file in tmp_path.glob("tensors.hlo*"))  # torch_xla adds the device's number
    products = {tuple(map(int, shape.split(","))) for shape in re.findall(r"= f32\[([\d,]+)\]\S* dot\(", written)}
    assert {(48, HIDDEN), (48, CLASSES)} <= products  # the layers'
    assert products & {(FEATURES, HIDDEN), (HIDDEN, FEATURES)}  # the gradient of the first layer's weight


@pytest.mark.parametrize(("batch_size", "messages"), [(64, []), (65, ["a batch of 65 is computed as 72 rows"])])
def test_only_a_batch_of_65_is_reported(xla_sim: Any, batch_size: int, messages: list[str]) -> None:
    """A TPU's tiles are 8 rows tall, so a batch of 65 pays for 72."""
    trace = xla_sim.run(train.main, ["--steps=5", f"--batch-size={batch_size}"])
    found = [finding.message for finding in trace.findings if finding.rule == "unaligned-batch"]
    assert [message.partition(":")[0] for message in found] == messages
