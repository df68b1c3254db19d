"""Tracing with placeholders: everything has its name, nothing is executed, and a step that reads values is refused at its line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fit_models
import pytest
import torch
import torch_xla
from fit_models import BATCH, WIDTH, WORDS, Decoder, loss, tokens
from torch import nn
from torch_xla.debug import metrics
from xla_sim.fit import load as fit_load
from xla_sim.fit.annotate import tensor_specs
from xla_sim.fit.load import UserError
from xla_sim.fit.plan import FitError, NeedsValue, Plan
from xla_sim.fit.sharding import parse_mesh
from xla_sim.fit.tracing import trace
from xla_sim.fit.wording import refusal
from xla_sim.hlo.module import parse


def kinds(plan: Plan) -> Counter[str]:
    return Counter(tensor.kind for tensor in plan.tensors if tensor.argument is not None)


def expect_refusal(function: Callable[..., Any], marker: str) -> NeedsValue:
    """The refusal names the line of this folder's source that bears the marker."""
    with pytest.raises(NeedsValue) as caught:
        trace(function, "here:plan")
    place = caught.value.place
    assert place is not None
    assert Path(place.file).parent == Path(__file__).parent
    assert marker in Path(place.file).read_text().splitlines()[place.line - 1]
    return caught.value


def test_every_argument_of_the_graph_has_a_name_and_its_shape() -> None:
    plan, graph = trace(fit_models.plan_decoder, "fit_models:plan_decoder")
    parameters = {tensor.argument: tensor for tensor in plan.tensors if tensor.argument is not None}
    found = {one.parameter: one.shape.dims for one in parse(graph).parameters}
    assert {number: tensor.shape for number, tensor in parameters.items()} == found
    model = Decoder()
    assert {one.name: one.shape for one in plan.of("parameter")} == {
        n: tuple(p.shape) for n, p in model.named_parameters()
    }
    assert plan.parameters == sum(parameter.numel() for parameter in model.parameters())  # the tied head counts once
    assert {one.name for one in plan.of("buffer")} == {"scale"}
    assert {one.name for one in plan.of("optimizer")} == {
        f"{name}/{state}" for name, _ in model.named_parameters() for state in ("exp_avg", "exp_avg_sq")
    }
    assert plan.batch_size == BATCH
    assert plan.blocks == ("blocks.0", "blocks.1")


def test_what_the_step_overwrites_gives_its_memory_to_the_result() -> None:
    plan, graph = trace(fit_models.plan_decoder, "fit_models:plan_decoder")
    outputs = parse(graph).outputs
    for tensor in plan.of("parameter", "optimizer"):
        assert tensor.output is not None
        assert outputs[tensor.output].dims == tensor.shape
    assert all(tensor.output is None for tensor in plan.of("buffer", "batch"))
    assert {one.name for one in plan.of("gradient")} == {one.name for one in plan.of("parameter")}


def test_nothing_is_executed() -> None:
    before = metrics.counter_value("ExecuteComputation"), metrics.metric_data("ExecuteTime")
    trace(fit_models.plan_with_dropout, "fit_models:plan_with_dropout")
    assert (metrics.counter_value("ExecuteComputation"), metrics.metric_data("ExecuteTime")) == before


def test_operations_bear_the_users_line_in_the_backward_pass_too() -> None:
    _, graph = trace(fit_models.plan_decoder, "fit_models:plan_decoder")
    source = Path(fit_models.__file__).read_text().splitlines()
    scores = next(number for number, line in enumerate(source, 1) if "scores = (q @ k" in line)
    ops = [one for one in parse(graph).entry.instructions if one.file == fit_models.__file__ and one.line == scores]
    dots = [one.op_name.partition("/")[0] for one in ops if one.opcode == "dot"]
    assert Counter(dots) == {"forward": 2, "backward": 4}  # one product in each block, and two gradients of it


@pytest.mark.parametrize(
    ("make", "state"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), set()),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"momentum_buffer"}),
        (torch.optim.Adam, {"exp_avg", "exp_avg_sq"}),
        (torch.optim.AdamW, {"exp_avg", "exp_avg_sq"}),
        (torch.optim.Adafactor, {"row_var", "col_var", "variance"}),
    ],
    ids=["sgd", "momentum", "adam", "adamw", "adafactor"],
)
def test_optimizers_hold_their_state(make: Any, state: set[str]) -> None:
    def plan() -> Any:
        model = Decoder()
        return model, make(model.parameters()), tokens(), loss

    found, _ = trace(plan, "here:plan")
    assert {one.name.partition("/")[2] for one in found.of("optimizer")} == state
    assert all(one.output is not None for one in found.of("optimizer", "parameter"))


def test_an_optimizer_that_reads_values_is_planned_and_told() -> None:
    def plan() -> Any:
        model = nn.Linear(8, 8)
        return model, torch.optim.Adafactor(model.parameters()), torch.zeros(4, 8), lambda model, x: model(x).sum()

    found, _ = trace(plan, "here:plan")
    assert sorted(found.reads.values()) == [2, 2]  # two parameters, two lines of torch/optim/_adafactor.py
    assert all("torch/optim/_adafactor.py:" in place for place in found.reads)


def test_a_recurrent_layer_and_batch_norm_and_a_constant_made_in_forward() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(8, 8, batch_first=True)
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            steps = torch.arange(x.shape[1], device=x.device).float()
            if (torch.ones(2, device=x.device) > 0).all():  # a constant: its value is known
                steps = steps + torch.zeros(1).to(x.device)
            return self.norm((self.rnn(x)[0] * steps[:, None]).mean(1)).square().mean()

    def plan() -> Any:
        model = Model()
        return model, torch.optim.Adam(model.parameters()), torch.zeros(4, 3, 8)

    found, _ = trace(plan, "here:plan")
    changed = {one.name for one in found.of("buffer") if one.output is not None}
    assert {"norm.running_mean", "norm.running_var"} <= changed
    assert {one.name for one in found.of("parameter")} >= {"rnn.weight_ih_l0", "norm.weight"}


def test_a_hugging_face_model_from_its_config() -> None:
    transformers = pytest.importorskip("transformers")

    def plan(batch_size: int = 2) -> Any:
        config = transformers.LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        ids = torch.empty(batch_size, 16, dtype=torch.long)
        return model, torch.optim.AdamW(model.parameters()), {"input_ids": ids, "labels": ids.clone()}

    found, graph = trace(plan, "here:plan", batch_size=4)
    assert found.batch_size == 4
    assert found.blocks == ("model.layers.0", "model.layers.1")
    assert {one.dtype for one in found.of("parameter", "optimizer")} == {"bfloat16"}
    assert {one.name for one in found.of("batch")} == {"input_ids", "labels"}
    with_checkpoints, _ = trace(plan, "here:plan", checkpoint="blocks")
    assert with_checkpoints.checkpointed == found.blocks
    assert kinds(with_checkpoints)["parameter"] == kinds(found)["parameter"]
    assert b"opt-barrier" not in graph


def test_checkpointed_blocks_are_computed_twice_behind_a_barrier() -> None:
    def softmaxes(graph: bytes) -> int:
        return sum(one.opcode == "exponential" for one in parse(graph).entry.instructions if "blocks" in one.op_name)

    _, plain = trace(fit_models.plan_decoder, "x:plan")
    _, twice = trace(fit_models.plan_decoder, "x:plan", checkpoint="blocks")
    assert softmaxes(twice) == 2 * softmaxes(plain)
    assert sum(one.opcode == "opt-barrier" for one in parse(twice).entry.instructions) == 2


def test_some_layers_can_be_left_out() -> None:
    plan, _ = trace(fit_models.plan_deep, "x:plan", layers=2)
    assert (len(plan.blocks), plan.layers) == (2, 6)
    block = 8 * WIDTH * WIDTH + 2 * WIDTH + 2 * WIDTH * WIDTH
    assert plan.parameters == WORDS * WIDTH + 2 * block


def change(step: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Any]:
    def plan() -> Any:
        class Changed(Decoder):
            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                return step(super().forward(tokens))

        model = Changed()
        return model, torch.optim.AdamW(model.parameters()), tokens(), loss

    return plan


def test_control_flow_on_values_is_refused_at_its_line() -> None:
    error = expect_refusal(fit_models.plan_reading, "if x.sum() > 0:  # here")
    assert error.operation == "_local_scalar_dense"


def read(x: torch.Tensor) -> torch.Tensor:
    return x * x.mean().item()  # item


def select(x: torch.Tensor) -> torch.Tensor:
    return x + x[x > 0].sum()  # mask


def show(x: torch.Tensor) -> torch.Tensor:
    print(x)  # print
    return x


def host(x: torch.Tensor) -> torch.Tensor:
    return x * x.cpu().sum()  # cpu


def unlowered(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft(x).real.sum() + x  # fft


@pytest.mark.parametrize("step", [read, select, show, host, unlowered], ids=["item", "mask", "print", "cpu", "fft"])
def test_other_reads_are_refused_at_their_line(step: Callable[[torch.Tensor], torch.Tensor]) -> None:
    marker = {read: "# item", select: "# mask", show: "# print", host: "# cpu", unlowered: "# fft"}[step]
    expect_refusal(change(step), marker)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (
            lambda m, o, b: m,
            "must return (model, optimizer, batch) or (model, optimizer, batch, loss), it returned Linear",
        ),
        (lambda m, o, b: (m, None, b), "must return an optimizer second, or a list of them; it returned NoneType"),
        (lambda m, o, b: (m, o, 3), "must return the batch third: a tensor, or a tuple or dict of tensors"),
        (
            lambda m, o, b: (m, o, b),
            "the output of the model is a tensor of shape [4, 8], no loss: let here:plan return a fourth item",
        ),
        (
            lambda m, o, b: (m, o, b, lambda m, b: m(b)),
            "the loss of here:plan must be a scalar tensor, it is a tensor of shape [4, 8]",
        ),
        (
            lambda m, o, b: (m, o, b, nn.MSELoss()),
            "step, as lambda model, batch: MSELoss()(model(batch[0]), batch[1]); it returned MSELoss",
        ),
        (lambda m, o, b: (m, o, b, lambda x: x), "for a whole step; its parameters are: x"),
        (
            lambda m, o, b: (m, o, b, lambda m, b: m(b).detach().sum()),
            "the loss of here:plan depends on no parameter that requires a gradient, so there is nothing to train",
        ),
        (
            lambda m, o, b: (m, torch.optim.LBFGS(m.parameters()), b, lambda m, b: m(b).sum()),
            "LBFGS runs the model several times a step through a closure, which fit can't plan",
        ),
    ],
)
def test_a_function_that_returns_something_else_is_told_what_is_wanted(parts: Any, sentence: str) -> None:
    def plan() -> Any:
        model = nn.Linear(8, 8)
        return parts(model, torch.optim.Adam(model.parameters()), torch.zeros(4, 8))

    with pytest.raises(FitError) as caught:
        trace(plan, "here:plan")
    assert sentence in str(caught.value)


def test_a_batch_size_needs_a_parameter_of_that_name() -> None:
    with pytest.raises(FitError, match="has no parameter batch_size"):
        trace(fit_models.plan_with_dropout, "x:plan", batch_size=4)


def test_a_function_that_wants_more_is_told_how_it_is_called() -> None:
    def plan(width: int, batch_size: int = 4) -> Any:
        raise AssertionError

    with pytest.raises(FitError) as caught:
        trace(plan, "here:plan", batch_size=8)
    assert str(caught.value) == (
        "fit calls here:plan(batch_size=8): missing a required argument: 'width'; give its other parameters defaults"
    )


def linear(batch: Any, step: Any = None) -> Any:
    model = nn.Linear(8, 8)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), batch, step or (lambda model, batch: model(batch).sum())


def test_the_batch_size_is_what_the_function_calls_so() -> None:
    def pairs(batch_size: int = 4) -> Any:
        return linear(torch.zeros(2 * batch_size, 8))

    def masked(batch_size: int = 4) -> Any:
        batch = {"mask": torch.zeros(8, 8), "x": torch.zeros(batch_size, 8)}
        return linear(batch, lambda model, batch: (model(batch["x"]) @ batch["mask"]).sum())

    found, _ = trace(pairs, "here:pairs", batch_size=16)
    assert (found.batch_size, found.leading, [found.is_divided(one) for one in found.of("batch")]) == (16, 32, [True])
    found, _ = trace(masked, "here:masked")
    assert (found.batch_size, found.leading) == (4, 0)
    assert {one.name: found.is_divided(one) for one in found.of("batch")} == {"mask": False, "x": True}
    specs = tensor_specs(found, {}, parse_mesh("fsdp=4"))
    assert ("batch", "mask") not in specs
    assert specs["batch", "x"] == (("fsdp",), ())


def test_a_loss_may_have_parameters_of_its_own() -> None:
    def scaled(model: nn.Module, batch: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return model(batch).sum() * scale

    found, _ = trace(lambda: linear(torch.zeros(4, 8), scaled), "here:plan")
    assert {one.name for one in found.of("gradient")} == {"weight", "bias"}


def test_the_users_sync_ends_the_step_and_one_in_its_middle_is_told() -> None:
    def plan(cut: bool) -> Any:
        def step(model: nn.Module, optimizer: Any, batch: torch.Tensor) -> torch.Tensor:
            torch_xla.sync()
            value = model(batch).sum()
            value.backward()
            if cut:
                torch_xla.sync()  # cut
            optimizer.step()
            torch_xla.sync()
            return value.detach()

        return linear(torch.zeros(4, 8), step)

    assert trace(lambda: plan(cut=False), "here:plan")[0].cuts == ()
    (place,) = trace(lambda: plan(cut=True), "here:plan")[0].cuts
    file, _, line = place.rpartition(":")
    assert "# cut" in Path(file).read_text().splitlines()[int(line) - 1]


def test_what_the_users_function_raises_begins_at_its_line_and_is_explained() -> None:
    class Saving(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)

    def saving() -> Any:
        model = Saving(8, 8)
        return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.zeros(4, 8), lambda model, x: model(x).sum()

    def moving() -> Any:
        return nn.Linear(8, 8).to(torch_xla.device())

    def wrong() -> Any:
        return linear(torch.zeros(4, 7))

    def told(function: Callable[[], Any]) -> list[str]:
        with pytest.raises(UserError) as caught:
            fit_load.trace(function, "here:plan", None, "")
        assert str(Path(fit_load.__file__).parent) not in str(caught.value)
        return str(caught.value).splitlines()

    assert told(saving)[-1] == (
        "xla_sim fit: torch.utils.checkpoint doesn't know XLA devices, on a TPU neither: "
        "use torch_xla.utils.checkpoint.checkpoint, or give fit --checkpoint blocks"
    )
    lines = told(moving)
    assert lines[1] == f'  File "{__file__}", line {moving.__code__.co_firstlineno + 1}, in moving'
    assert lines[-1].startswith(
        'xla_sim fit: the function runs under torch.device("meta"), where tensors have a shape and no values'
    )
    assert "Cannot infer shape for dot operation" in told(wrong)[-1]


def test_a_mask_that_transformers_reads_is_refused_with_what_to_give_instead() -> None:
    transformers = pytest.importorskip("transformers")

    def plan(mask: Any) -> Any:
        config = transformers.BertConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2
        )
        model = transformers.BertForMaskedLM(config)
        ids = torch.zeros(4, 16, dtype=torch.long)
        batch = {
            "input_ids": ids,
            "labels": ids.clone(),
            **({} if mask is None else {"attention_mask": torch.ones(mask)}),
        }
        return model, torch.optim.AdamW(model.parameters()), batch

    trace(lambda: plan(None), "here:plan")
    trace(lambda: plan((4, 1, 16, 16)), "here:plan")
    with pytest.raises(NeedsValue) as caught:
        trace(lambda: plan((4, 16)), "here:plan")
    message, fix = refusal(caught.value)
    assert message.startswith("this line needs the value of a tensor, as item(), float(), print or an if do")
    assert "leave attention_mask out of the batch when nothing is, or give it with four dimensions" in fix


def test_a_model_larger_than_the_machine_takes_no_memory() -> None:
    plan, _ = trace(fit_models.plan_too_large, "x:plan")
    assert sum(one.bytes for one in plan.of("parameter", "optimizer")) == 3 * 16 * 16384**2 * 4
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) * 1024 < sum(one.bytes for one in plan.of("parameter")) / 2
    assert math.prod(plan.of("batch")[0].shape) == 32 * 16384
