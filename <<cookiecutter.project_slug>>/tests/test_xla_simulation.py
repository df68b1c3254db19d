"""Does the training step behave on the lazy XLA runtime as a TPU needs it to?

    pytest tests/test_xla_simulation.py      or      python tests/test_xla_simulation.py

On XLA, PyTorch only records what the step does. The step mark, torch_xla.sync(), compiles the record into a graph, once
for each new shape, and executes it. These tests run train.py as it is, on PJRT's CPU device, and read torch_xla's own
metrics at each step mark. What they find here holds on a TPU: the lazy runtime is the same, only the device is not.
They know nothing of ToyModel, and hold for every model.
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
from deterministic import build_deterministic_model
from torch import nn
from torch_xla.debug import metrics
from xla_sim.config import load_config

from << cookiecutter.package_name >> import train
from << cookiecutter.package_name >>.data import batches
from << cookiecutter.package_name >>.model import build_model, build_optimizer, compute_loss
from << cookiecutter.package_name >>.tensors import map_tensors

ROOT = Path(__file__).resolve().parent.parent
WARMUP = max(load_config(ROOT).warmup_steps, 1)  # by then every graph is compiled: [tool.xla_sim] in pyproject.toml
STEPS = 18 + WARMUP
BATCH = 48  # no other test has this batch size, so that its graphs are new to the process that runs them all


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
    model = train.move(build_model(), device)
    optimizer = build_optimizer(model, 1e-3)

    def record(batch_size: int = BATCH) -> torch.Tensor:
        return train.train_step(model, optimizer, first_batch(device, batch_size))

    for _ in range(2):
        record()
        mark_step()
    return record


def first_batch(device: torch.device, batch_size: int = BATCH) -> Any:
    return map_tensors(lambda tensor: tensor.to(device), next(batches(batch_size, seed=1)))


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


def test_nothing_is_compiled_after_warm_up(training: Marks) -> None:
    """Step 1 compiles, and step 2 does, because Adam has a state from then on. Every later step finds its graph.

    If your batches come in several shapes on purpose, set warmup-steps in pyproject.toml to their number plus one.
    """
    assert set(training.compiled[WARMUP - 1 :]) == {training.compiled[WARMUP - 1]}


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
    assert training.uncached == training.compiled[-1]
    assert training.cached == STEPS - training.compiled[-1]


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


def test_the_tensor_dump_holds_matrix_products(tmp_path: Path) -> None:
    """XLA_SAVE_TENSORS_FILE writes every graph as HLO text. Without products or convolutions a TPU's matrix unit is idle."""
    variables = {"XLA_SAVE_TENSORS_FILE": str(tmp_path / "tensors.hlo"), "XLA_SAVE_TENSORS_FMT": "hlo"}
    command = [sys.executable, train.__file__, "--steps=2", f"--batch-size={BATCH}"]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, env={**os.environ, **variables, "PYTHONPATH": path}, check=True)
    written = "".join(file.read_text() for file in tmp_path.glob("tensors.hlo*"))  # torch_xla adds the device's number
    assert re.search(r" = \w+\[[\d,]*\]\S* (dot|convolution)\(", written)


def test_xla_and_eager_pytorch_agree(training: Marks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of one step, and the losses of twenty, without dropout: each device draws its own random numbers.

    Both sides round in another order, and steps carry that on, so half of the digits have to be the same. Weights
    are not compared: where a gradient is nothing but rounding, Adam makes whole steps of it.
    """
    model = build_deterministic_model()
    if len({loss_with_seed(model, seed) for seed in (0, 1)}) > 1:
        pytest.skip("compute_loss draws random numbers without dropout too: draw them in data.py to compare devices")
    tolerance = 3 * max(torch.finfo(parameter.dtype).eps for parameter in model.parameters()) ** 0.5

    on_xla, in_eager = gradients("xla"), gradients("cpu")
    assert on_xla.keys() == in_eager.keys()
    largest = max(gradient.norm().item() for gradient in in_eager.values())
    for name, gradient in in_eager.items():
        off = (on_xla[name] - gradient).norm().item()
        assert off <= tolerance * max(gradient.norm().item(), tolerance * largest), name

    monkeypatch.setattr(train, "build_model", build_deterministic_model)
    xla_losses, eager_losses = losses("xla"), losses("cpu")
    assert xla_losses == pytest.approx(eager_losses, abs=tolerance * max(map(abs, eager_losses)))


def loss_with_seed(model: nn.Module, seed: int) -> float:
    torch.manual_seed(seed)
    with torch.no_grad():
        return compute_loss(model, first_batch(torch.device("cpu"))).item()


def gradients(device_name: str) -> dict[str, torch.Tensor]:
    """What one training step on a device leaves in .grad, where it leaves something."""
    device, mark_step = train.open_device(device_name)
    torch.manual_seed(1)
    model = train.move(build_deterministic_model(), device)
    train.train_step(model, build_optimizer(model, 1e-3), first_batch(device))
    mark_step()
    return {name: p.grad.cpu().float() for name, p in model.named_parameters() if p.grad is not None}


def losses(device: str) -> list[float]:
    """The loss of each step of train.py."""
    seen: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "report", lambda step, steps, loss: seen.append(loss))
        train.main([f"--device={device}", f"--steps={STEPS}", "--log-every=1"])
    return seen


def test_every_parameter_with_a_gradient_changes(training: Marks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer holds each: a gradient that nobody uses is work for nothing."""
    before: dict[str, torch.Tensor] = {}
    trained: list[nn.Module] = []
    real_step = train.train_step

    def watched(model: nn.Module, *rest: Any) -> torch.Tensor:
        trained[:] = [model]
        before.update({name: parameter.detach().cpu() for name, parameter in model.named_parameters()})
        return real_step(model, *rest)

    monkeypatch.setattr(train, "train_step", watched)
    train.main(["--steps=2"])
    norms = {name: p.grad.norm().item() for name, p in trained[0].named_parameters() if p.grad is not None}
    used = {name for name, norm in norms.items() if norm > 1e-3 * max(norms.values())}  # less may be rounding alone
    assert used
    after = trained[0].state_dict()
    assert [name for name in used if torch.equal(before[name], after[name].cpu())] == []


def test_a_change_of_the_batch_size_is_reported(xla_sim: Any) -> None:
    """The simulator says at which step, and where in the user's own files."""
    trace = xla_sim.run(train_with_a_short_last_batch)
    (finding,) = [finding for finding in trace.findings if finding.rule == "graph-recompile"]
    assert f"step {WARMUP + 4}" in finding.message
    assert finding.location.file.startswith(("src", "tests"))


def train_with_a_short_last_batch() -> None:
    device, mark_step = train.open_device("xla")
    model = train.move(build_model(), device)
    optimizer = build_optimizer(model, 1e-3)
    for batch_size in [BATCH] * (WARMUP + 3) + [BATCH // 2]:
        train.train_step(model, optimizer, first_batch(device, batch_size))
        mark_step()


def test_the_batch_fills_the_tiles(xla_sim: Any) -> None:
    """A TPU's tiles are 8 rows tall: of a batch that is no multiple of 8 it computes rows that it throws away."""
    trace = xla_sim.run(train.main, ["--steps=5"])
    assert [finding.message for finding in trace.findings if finding.rule == "unaligned-batch"] == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
