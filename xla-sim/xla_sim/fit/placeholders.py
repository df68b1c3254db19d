"""From the user's function to a training step made of placeholders.

The function runs under `torch.device("meta")`, where tensors have a shape and no data; then every tensor of the program becomes a
placeholder of the XLA device, which has no data either but can be traced.
"""

from __future__ import annotations

import gc
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from xla_sim.fit.plan import FitError


@dataclass(frozen=True)
class Step:
    """What the user's function handed over, checked."""

    model: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]
    batch: Any
    run: Callable[[], torch.Tensor | None]  # the whole step; hands back the loss if it knows it
    examples: int  # the batch size: what the function was given or has as its default, else `leading`
    leading: int  # the first dimension of the tensors that are divided with the batch


def build(function: Callable[..., Any], target: str, batch_size: int | None) -> Step:
    """Run the user's function and check what it returns; raises FitError with the function's name."""
    if batch_size is not None and "batch_size" not in inspect.signature(function).parameters:
        raise FitError(
            f"{target} has no parameter batch_size, so the batch can't be set from outside: add one, or leave out --batch-size"
        )
    named = {} if batch_size is None else {"batch_size": batch_size}
    _check_call(function, target, named)
    with torch.device("meta"):
        parts = function(**named)
    if not isinstance(parts, (tuple, list)) or len(parts) not in (3, 4) or not isinstance(parts[0], nn.Module):
        raise FitError(
            f"{target} must return (model, optimizer, batch) or (model, optimizer, batch, loss), it returned {_describe(parts)}"
        )
    model, optimizer, batch = parts[:3]
    optimizers = tuple(optimizer) if isinstance(optimizer, (list, tuple)) else (optimizer,)
    for item in optimizers:
        if not isinstance(item, torch.optim.Optimizer):
            raise FitError(
                f"{target} must return an optimizer second, or a list of them; it returned {_describe(item)}"
            )
    if not any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(batch)[0]):
        raise FitError(
            f"{target} must return the batch third: a tensor, or a tuple or dict of tensors made by torch.empty(shape, dtype=…)"
        )
    loss: Callable[..., Any] = parts[3] if len(parts) == 4 else _default_loss(target)
    whole = _is_whole_step(loss, target)
    size = batch_size or _default_batch_size(function)
    leading = _leading(batch, size)

    def run() -> torch.Tensor | None:
        if whole:
            return loss(model, optimizer, batch)
        for item in optimizers:
            item.zero_grad()
        value = loss(model, batch)
        if not isinstance(value, torch.Tensor) or value.dim():
            raise FitError(f"the loss of {target} must be a scalar tensor, it is {_describe(value)}")
        if not value.requires_grad:
            raise FitError(
                f"the loss of {target} depends on no parameter that requires a gradient, so there is nothing to train: "
                "look for detach(), no_grad() or requires_grad_(False)"
            )
        value.backward()
        for item in optimizers:
            item.step()
        return value

    return Step(model, optimizers, batch, run, size or leading, leading)


def _check_call(function: Callable[..., Any], target: str, named: dict[str, Any]) -> None:
    """Raises FitError when the function wants arguments that it won't be given."""
    try:
        inspect.signature(function).bind(**named)
    except TypeError as error:
        call = ", ".join(f"{key}={value}" for key, value in named.items())
        raise FitError(f"fit calls {target}({call}): {error}; give its other parameters defaults") from None
    except ValueError:
        pass  # of something built in: the call will tell


def needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Its parameters that have no default."""
    parameters = inspect.signature(function).parameters.values()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in variable]


def _is_whole_step(loss: Any, target: str) -> bool:
    """Whether the fourth item is a step of (model, optimizer, batch) and not a loss of (model, batch); raises FitError for neither."""
    wanted = "a function of (model, batch) that returns the loss, or of (model, optimizer, batch) for a whole step"
    if isinstance(loss, nn.Module) or not callable(loss):
        example = f", as lambda model, batch: {type(loss).__name__}()(model(batch[0]), batch[1])"
        raise FitError(
            f"{target} must return fourth {wanted}{example if isinstance(loss, nn.Module) else ''}; it returned {_describe(loss)}"
        )
    parameters = inspect.signature(loss).parameters.values()
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = len(needed_arguments(loss))
    many = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if needed > 3 or (len(places) < 2 and not many):
        names = ", ".join(one.name for one in places) or "nothing"
        raise FitError(f"{target} must return fourth {wanted}; its parameters are: {names}")
    return needed == 3


def _default_batch_size(function: Callable[..., Any]) -> int | None:
    parameter = inspect.signature(function).parameters.get("batch_size")
    default = parameter.default if parameter else None
    return default if isinstance(default, int) and not isinstance(default, bool) else None


def _leading(batch: Any, size: int | None) -> int:
    """The batch size where a tensor begins with it; else the first dimension that most of the tensors have."""
    first = Counter(
        int(leaf.shape[0]) for leaf in tree_flatten(batch)[0] if isinstance(leaf, torch.Tensor) and leaf.dim()
    )
    if size is not None and size in first:
        return size
    return first.most_common(1)[0][0] if first else 1


def _default_loss(target: str) -> Callable[[nn.Module, Any], torch.Tensor]:
    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        out = (
            model(**batch)
            if isinstance(batch, dict)
            else model(*batch)
            if isinstance(batch, (tuple, list))
            else model(batch)
        )
        value = getattr(out, "loss", out)
        if not isinstance(value, torch.Tensor) or value.dim():
            raise FitError(
                f"the output of the model is {_describe(value)}, no loss: let {target} return a fourth item, a function of (model, batch)"
            )
        return value

    return loss


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return f"{type(value).__name__}"


def keep_layers(step: Step, layers: int) -> None:
    """Keep the first `layers` of the repeated modules. Raises FitError when there are none."""
    stacks = {name.rpartition(".")[0] for name in blocks(step.model)}
    if not stacks:
        raise FitError("the model has no repeated modules (a ModuleList or Sequential of one class) to leave out")
    for stack in stacks:
        module = step.model.get_submodule(stack)
        for name in [name for name, _ in module.named_children()][layers:][::-1]:
            delattr(module, name)
    left = {id(parameter) for parameter in step.model.parameters()}
    for optimizer in step.optimizers:
        for group in optimizer.param_groups:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) in left]


def meta_tensors() -> list[torch.Tensor]:
    """Every tensor on the meta device that Python holds, registered in a module or not."""
    return [item for item in gc.get_objects() if issubclass(type(item), torch.Tensor) and item.device.type == "meta"]


def placeholder(tensor: torch.Tensor) -> torch.Tensor:
    """An XLA tensor of the same shape and dtype that has no data."""
    from torch_xla.core.xla_builder import create_placeholder_tensor

    made: torch.Tensor = create_placeholder_tensor(tuple(tensor.shape), tensor.dtype)
    return made


def materialize(step: Step, made: Sequence[torch.Tensor]) -> None:
    """Give every tensor of the program a place on the XLA device, in the Python objects that everybody refers to.

    Swapping what is inside the objects keeps ties between layers, and the optimizer's hold on its parameters.
    """
    for module in step.model.modules():
        if hasattr(
            module, "_flat_weight_refs"
        ):  # of recurrent layers: weak references forbid swapping, flattening is for CUDA
            module._flat_weight_refs = []
    held = [*step.model.parameters(), *step.model.buffers(), *(leaf for leaf in tree_flatten(step.batch)[0])]
    for tensor in {id(tensor): tensor for tensor in (*held, *made) if isinstance(tensor, torch.Tensor)}.values():
        new = placeholder(tensor)
        if isinstance(tensor, nn.Parameter):
            new = nn.Parameter(new, requires_grad=tensor.requires_grad)
        elif tensor.requires_grad:
            new.requires_grad_()
        new.__dict__.update(tensor.__dict__)
        torch.utils.swap_tensors(tensor, new)


def blocks(model: nn.Module) -> list[str]:
    """The outermost repeated modules: children of one class in a ModuleList or Sequential."""
    found: list[str] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(block + ".") for block in found)
        if not inside and isinstance(module, (nn.ModuleList, nn.Sequential)):
            kinds = [type(child) for child in module.children()]
            found += [
                f"{name}.{key}".lstrip(".")
                for key, child in module.named_children()
                if kinds.count(type(child)) > 1 and any(True for _ in child.parameters())
            ]
    return found
