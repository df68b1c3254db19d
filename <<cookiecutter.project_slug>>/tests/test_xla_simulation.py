"""Does the training step behave on the lazy XLA runtime as a TPU needs it to?

    pytest tests/test_xla_simulation.py      or      python tests/test_xla_simulation.py

On XLA, PyTorch only records what the step does. The step mark, torch_xla.sync(), compiles the record into a graph, once
for each new shape, and executes it. These tests run train.py as it is, on PJRT's CPU device, and read torch_xla's own
metrics at each step mark. What they find here holds on a TPU: the lazy runtime is the same, only the device is not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.debug import metrics

from << cookiecutter.package_name >> import train
from << cookiecutter.package_name >>.data import batches, make_dataset
from << cookiecutter.package_name >>.model import CLASSES, FEATURES, HIDDEN, ToyModel

ROOT = Path(__file__).resolve().parent.parent
STEPS = 20
BATCH = 48  # no other test has this batch size, so that its graphs are new to the process that runs them all

# Both sides compute in float32 but add in another order, and Adam divides by the root of small numbers, so the weights
# drift apart by a few units in the last place at each of the 20 steps: 1e-7 per step, times 20, times 50 for safety.
TOLERANCE = 1e-4


def compilations() -> int:
    """How many graphs were compiled in this process so far."""
    data = metrics.metric_data("CompileTime")
    return data[0] if data else 0


def executions() -> int:
    """How many graphs were executed in this process so far, after waiting for those under way."""
    xm.wait_device_ops()
    data = metrics.metric_data("ExecuteTime")
    return data[0] if data else 0


def counter(name: str) -> int:
    return metrics.counter_value(name) or 0


@dataclass
class Marks:
    """What torch_xla's metrics said around each step mark of a training run, counted from the start of the run."""

    executed_before: list[int] = field(default_factory=list)
    executed_after: list[int] = field(default_factory=list)
    compiled: list[int] = field(default_factory=list)  # by this step and all before it
    uncached: int = 0
    cached: int = 0
    report: str = ""


@pytest.fixture(scope="module")
def training() -> Marks:
    """Run train.py for 20 steps, writing down the metrics at each step mark. It is the first to use XLA here."""
    seen = Marks()
    first_compiled, first_executed = compilations(), executions()
    first_uncached, first_cached = counter("UncachedCompile"), counter("CachedCompile")
    real_sync = torch_xla.sync

    def sync(*arguments: Any, **options: Any) -> None:
        seen.executed_before.append(executions() - first_executed)
        real_sync(*arguments, **options)
        seen.executed_after.append(executions() - first_executed)
        seen.compiled.append(compilations() - first_compiled)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_xla, "sync", sync)
        train.main([f"--steps={STEPS}", f"--batch-size={BATCH}"])
    seen.uncached = counter("UncachedCompile") - first_uncached
    seen.cached = counter("CachedCompile") - first_cached
    seen.report = metrics.metrics_report()
    return seen


@pytest.fixture
def one_step(training: Marks) -> Callable[..., torch.Tensor]:
    """Give a function that records one training step, with the optimizer warm and nothing pending."""
    device, mark_step = train.open_device("xla")
    torch.manual_seed(1)
    model = ToyModel().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    data = make_dataset(seed=1)

    def record(batch_size: int = BATCH) -> torch.Tensor:
        x, y = next(batches(data, batch_size, seed=1))
        return train.train_step(model, optimizer, x.to(device), y.to(device))

    for _ in range(2):
        record()
        mark_step()
    return record


def trained_weights(path: Path, device: str, steps: int = STEPS) -> dict[str, torch.Tensor]:
    """Train on a device and return the weights, from the checkpoint that train.py writes."""
    train.main([f"--device={device}", f"--steps={steps}", f"--checkpoint={path}"])
    weights: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["model"]
    return weights


def test_the_device_is_xla() -> None:
    device, mark_step = train.open_device("xla")
    assert device.type == "xla"
    assert xm.xla_device_hw(device) in ("CPU", "TPU")
    assert mark_step is torch_xla.sync


def test_every_step_ends_with_a_step_mark(training: Marks) -> None:
    assert len(training.executed_after) == STEPS


def test_nothing_runs_before_the_step_mark(training: Marks) -> None:
    """Between two step marks the step is only recorded. An execution there means that a value was read too early."""
    after_the_mark_before = [0, *training.executed_after[:-1]]
    assert training.executed_before == after_the_mark_before


def test_the_whole_step_runs_at_the_step_mark(training: Marks) -> None:
    """One step is one graph, so step N ends with N executions."""
    assert training.executed_after == list(range(1, STEPS + 1))


def test_without_the_step_mark_nothing_is_executed(one_step: Callable[..., torch.Tensor]) -> None:
    """Three steps pile up unexecuted. Reading the loss then executes what it needs: that is why reading is a sync."""
    before = executions()
    for _ in range(3):
        loss = one_step()
    assert executions() == before
    loss.item()
    assert executions() == before + 1


def test_two_compilations_and_none_after_warm_up(training: Marks) -> None:
    """Step 1 compiles, and step 2 does, because Adam has a state from then on. Every later step finds its graph."""
    assert training.compiled == [1] + [2] * (STEPS - 1)


def test_another_batch_size_compiles_again(one_step: Callable[..., torch.Tensor]) -> None:
    before = compilations()
    one_step(BATCH // 2)
    torch_xla.sync()
    assert compilations() == before + 1
    one_step(BATCH // 2)
    torch_xla.sync()
    assert compilations() == before + 1


def test_no_operation_falls_back_to_the_host(training: Marks) -> None:
    """torch_xla counts an operation that it can't lower as aten::NAME. _local_scalar_dense is .item(), a read."""
    on_a_tpu_alone = {"aten::upsample_bilinear2d_backward", "aten::upsample_nearest2d_backward"}  # lowered there
    fallbacks = {name for name in metrics.counter_names() if name.startswith("aten::")}
    assert fallbacks - {"aten::_local_scalar_dense"} - on_a_tpu_alone == set()


def test_the_metrics_report_counts_what_happened(training: Marks) -> None:
    for metric in ("CompileTime", "ExecuteTime", "TransferToDeviceTime"):
        assert f"Metric: {metric}" in training.report
    for name in ("UncachedCompile", "CachedCompile"):
        assert f"Counter: {name}" in training.report
    assert training.uncached == 2
    assert training.cached == STEPS - 2


def test_memory_figures(training: Marks) -> None:
    """A TPU tells how much memory is in use. PJRT's CPU device doesn't, and then this test says so."""
    device, _ = train.open_device("xla")
    try:
        memory = xm.get_memory_info(device)
    except RuntimeError as error:
        if "UNIMPLEMENTED" not in str(error):
            raise
        pytest.skip("this PJRT device gives no memory figures (the CPU's doesn't); nox -s tpu_compile does")
    assert 0 < memory["bytes_used"] <= memory["bytes_limit"]


def test_the_tensor_dump_holds_the_matrix_products(tmp_path: Path) -> None:
    """XLA_SAVE_TENSORS_FILE writes every graph as HLO text, where both layers' products can be seen with their shapes."""
    dump = tmp_path / "tensors.hlo"
    variables = {"XLA_SAVE_TENSORS_FILE": str(dump), "XLA_SAVE_TENSORS_FMT": "hlo"}
    command = [sys.executable, train.__file__, "--steps=2", f"--batch-size={BATCH}"]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, env={**os.environ, **variables, "PYTHONPATH": path}, check=True)

    written = "".join(file.read_text() for file in tmp_path.glob("tensors.hlo*"))  # torch_xla adds the device's number
    results = {
        shape for line in written.splitlines() if " dot(" in line for shape in re.findall(r"= (f32\[[\d,]*\])", line)
    }
    assert f"f32[{BATCH},{HIDDEN}]" in results  # the first layer's
    assert f"f32[{BATCH},{CLASSES}]" in results  # the second layer's
    assert results & {
        f"f32[{FEATURES},{HIDDEN}]",
        f"f32[{HIDDEN},{FEATURES}]",
    }  # the gradient of the first layer's weight


def test_xla_and_eager_pytorch_agree(training: Marks, tmp_path: Path) -> None:
    on_xla = trained_weights(tmp_path / "xla.pt", "xla")
    in_eager = trained_weights(tmp_path / "eager.pt", "cpu")
    assert on_xla.keys() == in_eager.keys()
    for name, weight in on_xla.items():
        torch.testing.assert_close(
            weight, in_eager[name], rtol=TOLERANCE, atol=TOLERANCE, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_every_parameter_changes(training: Marks, tmp_path: Path) -> None:
    first = trained_weights(tmp_path / "first.pt", "xla", steps=1)
    last = trained_weights(tmp_path / "last.pt", "xla", steps=2)
    assert [name for name in first if torch.equal(first[name], last[name])] == []


def test_the_loss_falls(training: Marks) -> None:
    first, last = train.main(["--steps=1"]), train.main(["--steps=60"])
    assert last < first / 2


def test_a_change_of_the_batch_size_is_reported(xla_sim: Any) -> None:
    """The simulator names what changed, in the user's own file."""
    trace = xla_sim.run(train_with_a_short_last_batch)
    (finding,) = [finding for finding in trace.findings if finding.rule == "graph-recompile"]
    assert str(BATCH) in finding.message
    assert str(BATCH // 2) in finding.message


def train_with_a_short_last_batch() -> None:
    device, mark_step = train.open_device("xla")
    model = ToyModel().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x, y = next(batches(make_dataset(seed=0), BATCH, seed=0))
    for rows in [BATCH] * 5 + [BATCH // 2]:
        train.train_step(model, optimizer, x[:rows].to(device), y[:rows].to(device))
        mark_step()


@pytest.mark.parametrize(("batch_size", "reported"), [(64, False), (65, True)])
def test_only_a_batch_of_65_is_reported(xla_sim: Any, batch_size: int, reported: bool) -> None:
    """A TPU's tiles are 8 rows tall, so a batch of 65 pays for 72."""
    trace = xla_sim.run(train.main, ["--steps=5", f"--batch-size={batch_size}"])
    findings = [finding for finding in trace.findings if finding.rule == "unaligned-batch"]
    assert len(findings) == reported
    assert all("65" in finding.message and "72" in finding.message for finding in findings)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
