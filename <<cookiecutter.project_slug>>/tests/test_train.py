"""Does train.py train? It learns, goes on where it stopped, and says what is wrong with its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from << cookiecutter.package_name >> import train
from << cookiecutter.package_name >>.data import batches, make_dataset
from << cookiecutter.package_name >>.model import CLASSES, FEATURES, ToyModel

DEVICES = pytest.mark.parametrize("device", ["cpu", "xla"])


def load(path: Path) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(path, weights_only=True)
    return checkpoint


def test_the_model_gives_a_logit_per_class() -> None:
    assert ToyModel()(torch.zeros(3, FEATURES)).shape == (3, CLASSES)


def test_batches_can_be_entered_at_any_step() -> None:
    """Step 5 sees the same batch whether training started at 0 or at 5, in the second epoch too."""
    dataset = make_dataset(seed=0, examples=24)
    from_the_start = batches(dataset, 8, seed=3)
    whole = [next(from_the_start) for _ in range(8)]
    late = batches(dataset, 8, seed=3, first_step=5)
    for x, y in whole[5:]:
        late_x, late_y = next(late)
        assert torch.equal(x, late_x)
        assert torch.equal(y, late_y)


def test_an_epoch_shows_each_example_once() -> None:
    points, labels = make_dataset(seed=0, examples=24)
    data = batches((points, labels), 8, seed=0)
    seen = torch.cat([next(data)[0] for _ in range(3)])
    assert torch.equal(seen.sum(dim=1).sort().values, points.sum(dim=1).sort().values)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(ValueError, match="batch size is 25, but the data set has only 24 examples"):
        next(batches(make_dataset(seed=0, examples=24), 25, seed=0))


@DEVICES
def test_training_learns_what_it_was_not_shown(device: str, tmp_path: Path) -> None:
    train.main([f"--device={device}", "--steps=200", f"--checkpoint={tmp_path / 'last.pt'}"])
    model = ToyModel()
    model.load_state_dict(load(tmp_path / "last.pt")["model"])
    points, labels = make_dataset(seed=0, examples=8192)  # 4096 as trained on and as many more
    accuracy = (model(points[4096:]).argmax(dim=1) == labels[4096:]).float().mean()
    assert accuracy > 0.9


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
    for name, weight in one["model"].items():
        assert torch.equal(weight, two["model"][name]), name
    for index, state in one["optimizer"]["state"].items():
        for key, value in state.items():
            assert torch.equal(value, two["optimizer"]["state"][index][key]), (index, key)


def test_bf16_computes_in_bfloat16() -> None:
    full, half = train.main(["--device=cpu", "--steps=5"]), train.main(["--device=cpu", "--steps=5", "--bf16"])
    assert full != half
    assert half == pytest.approx(full, rel=0.02)  # bfloat16 keeps 8 bits: 1 part in 256


def test_a_checkpoint_holds_cpu_tensors_only(tmp_path: Path) -> None:
    train.main(["--steps=1", f"--checkpoint={tmp_path / 'c.pt'}"])
    checkpoint = load(tmp_path / "c.pt")
    tensors = [*checkpoint["model"].values(), *checkpoint["optimizer"]["state"][0].values()]
    assert {tensor.device.type for tensor in tensors} == {"cpu"}


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
