"""Does train.py go on where it stopped, keep its checkpoints whole, and say what is wrong with its arguments?

These tests hold for every model: what is true of ToyModel alone is in test_toy_model.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from << cookiecutter.package_name >> import train
from << cookiecutter.package_name >>.data import batches
from << cookiecutter.package_name >>.tensors import map_tensors

DEVICES = pytest.mark.parametrize("device", ["cpu", "xla"])


def load(path: Path) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(path, weights_only=True)
    return checkpoint


def tensors(nest: Any) -> list[torch.Tensor]:
    """All tensors of a batch or a checkpoint."""
    found: list[torch.Tensor] = []
    map_tensors(found.append, nest)
    return found


def test_batches_can_be_entered_at_any_step() -> None:
    """Step 5 sees the same batch whether training started at 0 or at 5: without that, nothing resumes."""
    from_the_start = batches(8, seed=3)
    fifth = [next(from_the_start) for _ in range(6)][5]
    late = next(batches(8, seed=3, first_step=5))
    assert tensors(late)
    assert all(torch.equal(one, other) for one, other in zip(tensors(fifth), tensors(late)))


def test_a_shared_weight_stays_shared() -> None:
    model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8, bias=False))
    model[1].weight = model[0].weight
    moved = train.move(model, train.open_device("xla")[0])
    assert moved[1].weight is moved[0].weight
    assert len(list(moved.parameters())) == 1


@DEVICES
@pytest.mark.parametrize("precision", [[], ["--bf16"]])
def test_resume_continues_bit_for_bit(device: str, precision: list[str], tmp_path: Path) -> None:
    common = [f"--device={device}", *precision]
    whole, half, rest = (tmp_path / name for name in ("whole.pt", "half.pt", "rest.pt"))
    train.main([*common, "--steps=20", f"--checkpoint={whole}"])
    train.main([*common, "--steps=11", f"--checkpoint={half}"])
    train.main([*common, "--steps=20", f"--resume={half}", f"--checkpoint={rest}"])
    one, two = load(whole), load(rest)
    assert one["step"] == two["step"] == 20
    for part in ("model", "optimizer"):
        assert len(tensors(one[part])) == len(tensors(two[part]))
        for first, second in zip(tensors(one[part]), tensors(two[part])):
            torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)


def test_a_checkpoint_holds_cpu_tensors_only(tmp_path: Path) -> None:
    train.main(["--steps=1", f"--checkpoint={tmp_path / 'c.pt'}"])
    checkpoint = load(tmp_path / "c.pt")
    assert {tensor.device.type for tensor in tensors(checkpoint)} == {"cpu"}


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.pt"
    train.main(["--device=cpu", "--steps=1", f"--checkpoint={path}"])
    old = path.read_bytes()

    def fail(state: Any, file: Any) -> None:
        file.write(b"half a check")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        train.main(["--device=cpu", "--steps=2", f"--checkpoint={path}"])
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("device", "where"), [("cpu", "cpu, eager PyTorch"), ("xla", "xla:0 (PJRT_DEVICE=CPU)")])
def test_training_says_where_it_runs(device: str, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    train.main([f"--device={device}", "--steps=1", "--batch-size=8"])
    assert capsys.readouterr().out.splitlines()[0] == f"training on {where}, steps 1 to 1, batches of 8"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--steps=0"], "--steps is 0, and has to be 1 or more"),
        (["--batch-size=-8"], "--batch-size is -8, and has to be 1 or more"),
        (["--resume=nowhere.pt"], "--resume nowhere.pt: there is no such file"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        train.main(arguments)
    assert exit_code.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_finished_checkpoint_is_not_trained_further(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    train.main(["--device=cpu", "--steps=3", f"--checkpoint={path}"])
    with pytest.raises(SystemExit, match="is at step 3 already: give --steps more than that"):
        train.main(["--device=cpu", "--steps=3", f"--resume={path}"])
