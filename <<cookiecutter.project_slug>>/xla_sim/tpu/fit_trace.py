"""Trace one full training step of a model that needs no memory: placeholders in, an HLO graph out, nothing executed.

The user's function runs under `torch.device("meta")`, then every parameter, buffer, optimizer tensor and batch tensor becomes a
placeholder of the XLA device. Needs torch_xla 2.7 or newer; 2.4 has no placeholders.
"""

from __future__ import annotations

import fnmatch
import gc
import inspect
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch
import torch_xla
from torch import nn
from torch.utils._pytree import tree_flatten

from .fit_labels import Labels
from .fit_plan import FitError, Plan, Tensor
from .fit_recompute import pin, recompute

_XLAC = torch_xla._XLAC


@dataclass(frozen=True)
class Step:
    """What the user's function handed over, checked."""

    model: nn.Module
    optimizers: Tuple[torch.optim.Optimizer, ...]
    batch: Any
    run: Callable[[], Optional[torch.Tensor]]  # the whole step; hands back the loss if it knows it


def needs() -> Optional[str]:
    """Why this environment can't trace, or None."""
    if hasattr(_XLAC, "_xla_create_placeholder_tensor") and hasattr(_XLAC, "_get_xla_tensors_hlo_proto"):
        return None
    return f"fit needs torch_xla 2.7 or newer, which has placeholder tensors; this is torch_xla {torch_xla.__version__}"


def trace(function: Callable[..., Any], target: str, batch_size: Optional[int] = None, checkpoint: str = "") -> Tuple[Plan, bytes]:
    """One training step as a plan and an HloModuleProto.

    `batch_size` is passed on to functions that take it. `checkpoint` says whose activations to compute again: `blocks` for the
    repeated modules, or a pattern of module names. Raises FitError, and NeedsValue where the step reads a value.
    """
    begin = time.monotonic()
    before = {id(tensor) for tensor in _meta_tensors()}
    step = _build(function, target, batch_size)
    made = [tensor for tensor in _meta_tensors() if id(tensor) not in before]
    _materialize(step, made)
    blocks, recomputed = _blocks(step.model), _prepare(step.model, checkpoint)
    size = _batch_size(step.batch)
    labels = Labels()
    _follow(step, labels, blocks, size)
    _XLAC._set_ir_debug(True)
    with torch.autograd.set_multithreading_enabled(False), labels:  # one thread: labels are found by its sequence numbers
        state = _optimizer_state(step, labels)
        inputs = _inputs(step, state)
        ids = {_XLAC._xla_get_tensor_id(tensor): number for number, (_, tensor) in enumerate(inputs)}
        labels.phase, labels.read, labels.reads = "forward", [], {}
        loss = step.run()
    outputs = _outputs(step, inputs, loss, labels.read)
    graph: bytes = _XLAC._get_xla_tensors_hlo_proto([tensor for _, tensor in outputs])
    plan = Plan(
        target=target,
        batch_size=size,
        tensors=tuple(_tensors(inputs, outputs, ids)),
        blocks=tuple(blocks),
        checkpointed=tuple(recomputed),
        reads=labels.reads,
        seconds=time.monotonic() - begin,
        stack={"torch": torch.__version__, "torch_xla": torch_xla.__version__},
    )
    return plan, graph


def _meta_tensors() -> List[torch.Tensor]:
    return [item for item in gc.get_objects() if issubclass(type(item), torch.Tensor) and item.device.type == "meta"]


def _build(function: Callable[..., Any], target: str, batch_size: Optional[int]) -> Step:
    if batch_size is not None and "batch_size" not in inspect.signature(function).parameters:
        raise FitError(f"{target} has no parameter batch_size, so the batch can't be set from outside: add one, or leave out --batch-size")
    with torch.device("meta"):
        parts = function() if batch_size is None else function(batch_size=batch_size)
    if not isinstance(parts, (tuple, list)) or len(parts) not in (3, 4) or not isinstance(parts[0], nn.Module):
        raise FitError(f"{target} must return (model, optimizer, batch) or (model, optimizer, batch, loss), it returned {_describe(parts)}")
    model, optimizer, batch = parts[:3]
    optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
    for item in optimizers:
        if not isinstance(item, torch.optim.Optimizer):
            raise FitError(f"{target} must return an optimizer second, or a list of them; it returned {_describe(item)}")
    if not any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(batch)[0]):
        raise FitError(f"{target} must return the batch third: a tensor, or a tuple or dict of tensors made by torch.empty(shape, dtype=…)")
    loss = parts[3] if len(parts) == 4 else _default_loss(target)
    whole = len(inspect.signature(loss).parameters) == 3

    def run() -> Optional[torch.Tensor]:
        if whole:
            return loss(model, optimizer, batch)  # type: ignore[no-any-return]
        for item in optimizers:
            item.zero_grad()
        value = loss(model, batch)
        if not isinstance(value, torch.Tensor) or value.dim():
            raise FitError(f"the loss of {target} must be a scalar tensor, it is {_describe(value)}")
        value.backward()  # type: ignore[no-untyped-call]
        for item in optimizers:
            item.step()
        return value

    return Step(model, optimizers, batch, run)


def _default_loss(target: str) -> Callable[[nn.Module, Any], torch.Tensor]:
    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        out = model(**batch) if isinstance(batch, dict) else model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
        value = getattr(out, "loss", out)
        if not isinstance(value, torch.Tensor) or value.dim():
            raise FitError(f"the output of the model is {_describe(value)}, no loss: let {target} return a fourth item, a function of (model, batch)")
        return value

    return loss


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return f"{type(value).__name__}"


def _placeholder(tensor: torch.Tensor) -> torch.Tensor:
    from torch_xla.core.xla_builder import create_placeholder_tensor

    made: torch.Tensor = create_placeholder_tensor(tuple(tensor.shape), tensor.dtype)
    return made


def _materialize(step: Step, made: Sequence[torch.Tensor]) -> None:
    """Give every tensor of the program a place on the XLA device, in the Python objects that everybody refers to.

    Swapping what is inside the objects keeps ties between layers, and the optimizer's hold on its parameters.
    """
    for module in step.model.modules():
        if hasattr(module, "_flat_weight_refs"):  # of recurrent layers: weak references forbid swapping, flattening is for CUDA
            module._flat_weight_refs = []
    held = [*step.model.parameters(), *step.model.buffers(), *(leaf for leaf in tree_flatten(step.batch)[0])]
    for tensor in {id(tensor): tensor for tensor in (*held, *made) if isinstance(tensor, torch.Tensor)}.values():
        new = _placeholder(tensor)
        if isinstance(tensor, nn.Parameter):
            new = nn.Parameter(new, requires_grad=tensor.requires_grad)
        elif tensor.requires_grad:
            new.requires_grad_()
        new.__dict__.update(tensor.__dict__)
        torch.utils.swap_tensors(tensor, new)  # type: ignore[attr-defined]


def _batch_size(batch: Any) -> int:
    return next((int(leaf.shape[0]) for leaf in tree_flatten(batch)[0] if isinstance(leaf, torch.Tensor) and leaf.dim()), 1)


def _blocks(model: nn.Module) -> List[str]:
    """The outermost repeated modules: children of one class in a ModuleList or Sequential."""
    found: List[str] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(block + ".") for block in found)
        if not inside and isinstance(module, (nn.ModuleList, nn.Sequential)):
            kinds = [type(child) for child in module.children()]
            found += [f"{name}.{key}".lstrip(".") for key, child in module.named_children() if kinds.count(type(child)) > 1 and any(True for _ in child.parameters())]
    return found


def _prepare(model: nn.Module, checkpoint: str) -> List[str]:
    names = [name for name, _ in model.named_modules() if name]
    chosen = _blocks(model) if checkpoint == "blocks" else [name for name in names if checkpoint and fnmatch.fnmatchcase(name, checkpoint)]
    if checkpoint and not chosen:
        raise FitError(
            f"--checkpoint {checkpoint}: the model has no "
            + ("repeated modules (a ModuleList or Sequential of one class); give a pattern of module names" if checkpoint == "blocks" else "module of that name")
            + f", such as {', '.join(names[:3])}"
        )
    for name in chosen:
        recompute(model.get_submodule(name))
    return chosen


def _follow(step: Step, labels: Labels, blocks: Sequence[str], size: int) -> None:
    """Hooks that tell the labels where the program is, and pin the activations between the large parts of the model."""
    pinned = {*blocks, *(name for name, child in step.model.named_children() if not isinstance(child, nn.ModuleList)), ""}

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


def _optimizer_state(step: Step, labels: Labels) -> List[Tuple[str, torch.Tensor]]:
    """Let the optimizers make their state, as the first step does, and put placeholders in its place, as in all later steps."""
    names = _parameter_names(step)
    trained = [parameter for optimizer in step.optimizers for group in optimizer.param_groups for parameter in group["params"]]
    for parameter in trained:
        if parameter.requires_grad:
            parameter.grad = _placeholder(parameter)
    for optimizer in step.optimizers:
        optimizer.step()
    found: List[Tuple[str, torch.Tensor]] = []
    for optimizer in step.optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.device.type == "xla":
                    state[key] = _placeholder(value)
                    found.append((f"{names.get(id(parameter), 'parameter')}/{key}", state[key]))
    for parameter in trained:
        parameter.grad = None
        parameter.data = _placeholder(parameter)  # the trial step has written to it
    _XLAC._clear_pending_irs(str(torch_xla.device()))
    return found


def _parameter_names(step: Step) -> Dict[int, str]:
    return {id(parameter): name for name, parameter in step.model.named_parameters()}


_Named = Tuple[Tuple[str, str], torch.Tensor]  # (kind, name), tensor


def _inputs(step: Step, state: Iterable[Tuple[str, torch.Tensor]]) -> List[_Named]:
    found: List[_Named] = [(("parameter", name), tensor) for name, tensor in step.model.named_parameters()]
    found += [(("buffer", name), tensor) for name, tensor in step.model.named_buffers()]
    found += [(("optimizer", name), tensor) for name, tensor in state]
    leaves = [leaf for leaf in tree_flatten(step.batch)[0] if isinstance(leaf, torch.Tensor)]
    keys = list(step.batch) if isinstance(step.batch, dict) and len(step.batch) == len(leaves) else range(len(leaves))
    return found + [(("batch", f"{key}"), leaf) for key, leaf in zip(keys, leaves)]


def _outputs(step: Step, inputs: Sequence[_Named], loss: Optional[torch.Tensor], read: Sequence[torch.Tensor]) -> List[_Named]:
    """All that is alive when the step ends, as torch_xla.sync() would have it: what was written to, the gradients, the loss."""
    found = [] if loss is None else [(("loss", "loss"), loss)]
    changed = _XLAC._check_tensor_need_materialization([tensor for _, tensor in inputs])
    found += [item for item, new in zip(inputs, changed) if new]
    found += [(("gradient", name), tensor.grad) for (kind, name), tensor in inputs if kind == "parameter" and tensor.grad is not None]
    return found + [(("read", f"read.{number}"), tensor) for number, tensor in enumerate(read)]


def _tensors(inputs: Sequence[_Named], outputs: Sequence[_Named], ids: Dict[int, int]) -> Iterable[Tensor]:
    """Tie the HLO's parameters and outputs to names: parameters by the tensor ids that the runtime reports in their order."""
    data_ids, values = _XLAC._get_tensors_xla_device_data_node([tensor for _, tensor in outputs])
    place = {name: number for number, (name, _) in enumerate(outputs)}
    numbers: Dict[int, int] = {ids[data]: number for number, data in enumerate(data_ids) if data in ids}
    seen: Set[int] = set()
    for number, (name, tensor) in enumerate(inputs):
        seen.add(number)
        yield _tensor(name, tensor, numbers.get(number), place.get(name))
    for number, (data, value) in enumerate(zip(data_ids, values)):
        if data not in ids:
            yield _tensor(("scalar" if not value.dim() else "constant", f"constant.{number}"), value, number, None)
    known = {name for name, _ in inputs}
    for output, (name, tensor) in enumerate(outputs):
        if name not in known:
            yield replace(_tensor(name, tensor, None, None), output=output)


def _tensor(name: Tuple[str, str], tensor: torch.Tensor, argument: Optional[int], output: Optional[int]) -> Tensor:
    return Tensor(*name, tuple(tensor.shape), str(tensor.dtype).split(".")[1], argument, output)
