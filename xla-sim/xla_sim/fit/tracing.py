"""Trace one full training step of a model that needs no memory: placeholders in, an HLO graph out, nothing executed.

The user's function runs under `torch.device("meta")`, then every parameter, buffer, optimizer tensor and batch tensor becomes a
placeholder of the XLA device. Needs torch_xla 2.7 or newer; 2.4 has no placeholders.
"""

from __future__ import annotations

import fnmatch
import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch_xla
from torch import nn
from torch.utils._pytree import tree_flatten

from xla_sim.fit.labels import Labels
from xla_sim.fit.placeholders import (
    Step,
    blocks,
    build,
    keep_layers,
    materialize,
    meta_tensors,
    needed_arguments,
    placeholder,
)
from xla_sim.fit.plan import FitError, Plan, Tensor
from xla_sim.fit.recompute import pin, pin_gradients, recompute

_XLAC = torch_xla._XLAC


def needs() -> str | None:
    """Why this environment can't trace, or None."""
    if hasattr(_XLAC, "_xla_create_placeholder_tensor") and hasattr(_XLAC, "_get_xla_tensors_hlo_proto"):
        return None
    return f"fit needs torch_xla 2.7 or newer, which has placeholder tensors; this is torch_xla {torch_xla.__version__}"


def trace(
    function: Callable[..., Any],
    target: str,
    batch_size: int | None = None,
    checkpoint: str = "",
    layers: int | None = None,
) -> tuple[Plan, bytes]:
    """One training step as a plan and an HloModuleProto.

    `batch_size` is passed on to functions that take it. `checkpoint` says whose activations to compute again: `blocks` for the
    repeated modules, or a pattern of module names. `layers` keeps only so many of the repeated modules. Raises FitError, and NeedsValue where the step reads a value.
    """
    try:
        return _trace(function, target, batch_size, checkpoint, layers)
    finally:
        gc.collect()  # a placeholder in a cycle would be executed by the next step mark of this process


def _trace(
    function: Callable[..., Any], target: str, batch_size: int | None, checkpoint: str, layers: int | None
) -> tuple[Plan, bytes]:
    begin = time.monotonic()
    before = {id(tensor) for tensor in meta_tensors()}
    step = build(function, target, batch_size)
    whole = len(blocks(step.model))
    if layers is not None:
        keep_layers(step, layers)
    made = [tensor for tensor in meta_tensors() if id(tensor) not in before]
    materialize(step, made)
    repeated, recomputed = blocks(step.model), _prepare(step.model, checkpoint)
    labels = Labels()
    _follow(step, labels, repeated, step.leading)
    bases = pin_gradients(step.model)
    _XLAC._set_ir_debug(True)
    with (
        torch.autograd.set_multithreading_enabled(False),
        labels,
    ):  # one thread: labels are found by its sequence numbers
        state = _optimizer_state(step, labels)
        inputs = _inputs(step, state)
        ids = {_XLAC._xla_get_tensor_id(tensor): number for number, (_, tensor) in enumerate(inputs)}
        labels.phase, labels.read, labels.reads, labels.syncs, labels.operations = "forward", [], {}, [], 0
        loss = step.run()
    outputs = _outputs(step, inputs, loss, labels.read, bases)
    graph: bytes = _XLAC._get_xla_tensors_hlo_proto([tensor for _, tensor in outputs])
    plan = Plan(
        target=target,
        batch_size=step.examples,
        tensors=tuple(_tensors(inputs, outputs, ids)),
        blocks=tuple(repeated),
        layers=whole,
        checkpointed=tuple(recomputed),
        reads=labels.reads,
        seconds=time.monotonic() - begin,
        stack={"torch": torch.__version__, "torch_xla": torch_xla.__version__},
        cuts=tuple(labels.cuts()),
        leading=0 if step.leading == step.examples else step.leading,
    )
    return plan, graph


def _prepare(model: nn.Module, checkpoint: str) -> list[str]:
    names = [name for name, _ in model.named_modules() if name]
    chosen = (
        blocks(model)
        if checkpoint == "blocks"
        else [name for name in names if checkpoint and fnmatch.fnmatchcase(name, checkpoint)]
    )
    if checkpoint and not chosen:
        raise FitError(
            f"--checkpoint {checkpoint}: the model has no "
            + (
                "repeated modules (a ModuleList or Sequential of one class); give a pattern of module names"
                if checkpoint == "blocks"
                else "module of that name"
            )
            + f", such as {', '.join(names[:3])}"
        )
    for name in chosen:
        recompute(model.get_submodule(name))
    return chosen


def _follow(step: Step, labels: Labels, repeated: Sequence[str], size: int) -> None:
    """Hooks that tell the labels where the program is, and pin the activations between the large parts of the model."""
    pinned = {
        *repeated,
        *(name for name, child in step.model.named_children() if not isinstance(child, nn.ModuleList)),
        "",
    }

    def enter(name: str) -> Callable[..., None]:
        return lambda *_: labels.modules.append(name)

    def leave(name: str) -> Callable[..., Any]:
        def hook(module: nn.Module, args: Any, out: Any) -> Any:
            out = pin(out, name, size) if name in pinned else out
            labels.modules.pop()
            return out

        return hook

    def phase(name: str) -> Callable[..., None]:
        return lambda *_: setattr(labels, "phase", name)

    for name, module in step.model.named_modules():
        module.register_forward_pre_hook(enter(name))
        module.register_forward_hook(leave(name))
    for optimizer in step.optimizers:
        optimizer.register_step_pre_hook(phase("optimizer"))
        optimizer.register_step_post_hook(phase("forward"))


def _optimizer_state(step: Step, labels: Labels) -> list[tuple[str, torch.Tensor]]:
    """Let the optimizers make their state, as the first step does, and put placeholders in its place, as in all later steps."""
    names = _parameter_names(step)
    trained = [
        parameter for optimizer in step.optimizers for group in optimizer.param_groups for parameter in group["params"]
    ]
    for parameter in trained:
        if parameter.requires_grad:
            parameter.grad = placeholder(parameter)
    for optimizer in step.optimizers:
        if "closure" in needed_arguments(optimizer.step):
            raise FitError(
                f"{type(optimizer).__name__} runs the model several times a step through a closure, which fit can't plan"
            )
        optimizer.step()
    found: list[tuple[str, torch.Tensor]] = []
    for optimizer in step.optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.device.type == "xla":
                    state[key] = placeholder(value)
                    found.append((f"{names.get(id(parameter), 'parameter')}/{key}", state[key]))
    for parameter in trained:
        parameter.grad = None
        parameter.data = placeholder(parameter)  # the trial step has written to it
    _XLAC._clear_pending_irs(str(torch_xla.device()))
    return found


def _parameter_names(step: Step) -> dict[int, str]:
    return {id(parameter): name for name, parameter in step.model.named_parameters()}


_Named = tuple[tuple[str, str], torch.Tensor]  # (kind, name), tensor


def _inputs(step: Step, state: Iterable[tuple[str, torch.Tensor]]) -> list[_Named]:
    found: list[_Named] = [(("parameter", name), tensor) for name, tensor in step.model.named_parameters()]
    found += [(("buffer", name), tensor) for name, tensor in step.model.named_buffers()]
    found += [(("optimizer", name), tensor) for name, tensor in state]
    leaves = [leaf for leaf in tree_flatten(step.batch)[0] if isinstance(leaf, torch.Tensor)]
    keys = list(step.batch) if isinstance(step.batch, dict) and len(step.batch) == len(leaves) else range(len(leaves))
    return found + [(("batch", f"{key}"), leaf) for key, leaf in zip(keys, leaves)]


def _outputs(
    step: Step,
    inputs: Sequence[_Named],
    loss: torch.Tensor | None,
    read: Sequence[torch.Tensor],
    bases: Mapping[str, torch.Tensor],
) -> list[_Named]:
    """All that is alive when the step ends, as torch_xla.sync() would have it: what was written to, the loss, the gradients.

    With a gradient lives what it is a view of, see `pin_gradients`.
    """
    found = [] if loss is None else [(("loss", "loss"), loss)]
    changed = _XLAC._check_tensor_need_materialization([tensor for _, tensor in inputs])
    found += [item for item, new in zip(inputs, changed) if new]
    found += [
        (("gradient", name), tensor.grad)
        for (kind, name), tensor in inputs
        if kind == "parameter" and tensor.grad is not None
    ]
    found += [(("base", name), bases[name]) for (kind, name), _ in found if kind == "gradient" and name in bases]
    return found + [(("read", f"read.{number}"), tensor) for number, tensor in enumerate(read)]


def _tensors(inputs: Sequence[_Named], outputs: Sequence[_Named], ids: dict[int, int]) -> Iterable[Tensor]:
    """Tie the HLO's parameters and outputs to names: parameters by the tensor ids that the runtime reports in their order."""
    data_ids, values = _XLAC._get_tensors_xla_device_data_node([tensor for _, tensor in outputs])
    place = {name: number for number, (name, _) in enumerate(outputs)}
    numbers: dict[int, int] = {ids[data]: number for number, data in enumerate(data_ids) if data in ids}
    seen: set[int] = set()
    for number, (name, tensor) in enumerate(inputs):
        seen.add(number)
        yield _tensor(name, tensor, numbers.get(number), place.get(name))
    for number, (data, value) in enumerate(zip(data_ids, values)):
        if data not in ids:
            yield _tensor(("scalar" if not value.dim() else "constant", f"constant.{number}"), value, number, None)
    known = {name for name, _ in inputs}
    gradients = {name: tensor for (kind, name), tensor in outputs if kind == "gradient"}
    for output, (name, made) in enumerate(outputs):
        tensor = gradients[name[1]] if name[0] == "base" else made
        if name not in known:
            yield replace(_tensor(name, tensor, None, None), output=output)


def _tensor(name: tuple[str, str], tensor: torch.Tensor, argument: int | None, output: int | None) -> Tensor:
    return Tensor(*name, tuple(tensor.shape), str(tensor.dtype).split(".")[1], argument, output)
