"""Pins and recomputation: what the traced step does beyond the user's code so that a large model can fit.

A pin names an intermediate tensor in the HLO, so that its sharding can be set afterwards, for any mesh. Recomputation drops a
block's activations after the forward pass and computes them again in the backward pass, behind an optimization barrier, without
which XLA would find the two computations equal and keep the first. The parameters go through the barrier as well: that is what
makes the compiler gather a sharded weight twice and free it in between, as FSDP does, rather than hold all gathered weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch_xla
import torch_xla.experimental.xla_marker  # defines torch.ops.xla.mark_tensor
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

PIN, GRADIENT = "xla_sim.pin:", "xla_sim.gradient:"  # how the names in the HLO begin
_TENSOR = object()  # stands for a tensor in a flattened output


def _mark(tensor: torch.Tensor, name: str) -> torch.Tensor:
    marked: torch.Tensor = torch.ops.xla.mark_tensor(tensor, name=name, pos=0, id="", is_input=True, attr=None)
    return marked


def pin_gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """Name each parameter's gradient, so that it can be sharded as the parameter is: a reduce-scatter, not an all-reduce.

    Hands back what will hold, by parameter, the tensor that its gradient is a view of: a linear layer's is a product transposed.
    A parameter keeps that tensor alive with its gradient, so that torch_xla makes both of them outputs of the step.
    """
    bases: dict[str, torch.Tensor] = {}

    def hook(gradient: torch.Tensor, name: str, parameter: nn.Parameter) -> torch.Tensor:
        if parameter.grad is None:  # what is added to a gradient isn't kept
            bases.pop(name, None)
            if gradient._base is not None:
                bases[name] = gradient._base
        return _mark(gradient, GRADIENT + name)

    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_hook(functools.partial(hook, name=name, parameter=parameter))
    return bases


class _Pin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str) -> torch.Tensor:
        ctx.name = name
        return _mark(tensor, PIN + name)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _mark(gradient, PIN + ctx.name), None


def pin(value: Any, name: str, batch_size: int) -> Any:
    """Pin every tensor in `value` (a tensor, tuple, dict or model output) that has the batch as its first dimension."""
    leaves, tree = tree_flatten(value)
    pinned = [
        _Pin.apply(leaf, name)
        if isinstance(leaf, torch.Tensor)
        and leaf.dim() > 1
        and leaf.shape[0] == batch_size
        and leaf.is_floating_point()
        else leaf
        for leaf in leaves
    ]
    return tree_unflatten(pinned, tree)


class _Recompute(torch.autograd.Function):
    """Run `call(tensors)` and keep only its inputs."""

    @staticmethod
    def forward(ctx: Any, call: Callable[[list[torch.Tensor]], list[Any]], *tensors: torch.Tensor) -> Any:
        ctx.call = call
        ctx.save_for_backward(*tensors)
        ctx.seed = torch_xla._XLAC._xla_get_rng_seed("")  # the second run must drop the same elements
        return tuple(call(list(tensors)))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        tensors = ctx.saved_tensors
        copies = [tensor.detach().clone() for tensor in tensors]
        fences = copies + [gradient.clone() for gradient in gradients if gradient is not None]
        torch_xla._XLAC._xla_optimization_barrier_(fences)
        fenced = iter(fences[len(copies) :])
        gradients = tuple(None if gradient is None else next(fenced) for gradient in gradients)
        inputs = [copy.requires_grad_(tensor.requires_grad) for copy, tensor in zip(copies, tensors)]
        seed = torch_xla._XLAC._xla_get_rng_seed("")
        torch_xla._XLAC._xla_set_rng_seed(ctx.seed, "")
        with torch.enable_grad():
            outputs = ctx.call(inputs)
        torch_xla._XLAC._xla_set_rng_seed(seed, "")
        pairs = [(out, grad) for out, grad in zip(outputs, gradients) if grad is not None and out.requires_grad]
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        found = iter(
            torch.autograd.grad([out for out, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True)
        )
        return (None, *(next(found) if tensor.requires_grad else None for tensor in inputs))


def recompute(module: nn.Module) -> None:
    """From now on `module` keeps none of its activations for the backward pass, only its inputs."""
    forward = module.forward
    names = [name for name, _ in module.named_parameters()]

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        spots = [number for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        shape: dict[str, Any] = {}

        def call(tensors: list[torch.Tensor]) -> list[Any]:
            filled = list(leaves)
            for spot, tensor in zip(spots, tensors[len(names) :]):
                filled[spot] = tensor
            inner_args, inner_kwargs = tree_unflatten(filled, tree)
            module.forward = forward
            try:
                out = torch.func.functional_call(module, dict(zip(names, tensors)), inner_args, inner_kwargs)
            finally:
                module.forward = checkpointed
            outs, shape["tree"] = tree_flatten(out)
            shape["rest"] = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in outs]
            return [leaf for leaf in outs if isinstance(leaf, torch.Tensor)]

        parameters = [parameter for _, parameter in module.named_parameters()]
        found = iter(_Recompute.apply(call, *parameters, *(leaves[spot] for spot in spots)))
        return tree_unflatten([next(found) if leaf is _TENSOR else leaf for leaf in shape["rest"]], shape["tree"])

    module.forward = checkpointed
