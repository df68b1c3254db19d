"""Write a mesh into a traced graph: shardings on its parameters and pins, donation on what the step overwrites.

The result is the HLO that torch_xla's own SPMD mode would have made with that mesh, with no limit on the number of chips, and
`xla_sim compile` reads it like any other graph.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Mapping
from typing import Any

from xla_sim.fit.plan import Plan, Tensor
from xla_sim.fit.sharding import (
    Mesh,
    Sharding,
    ShardingError,
    Spec,
    assign,
    check_axes_used,
    check_batch,
    to_sharding,
)
from xla_sim.hlo.protos import parse

PIN, GRADIENT = "xla_sim.pin:", "xla_sim.gradient:"
_REPLICATED, _TILED = 0, 3
# torch_xla numbers its scopes over the life of the process: "forward/blocks.0.457/aten__mm" would be another graph in the next trace
_NUMBERED = re.compile(r"^((?:forward|backward|optimizer)/[^/]*)\.\d+(?=/|$)")


def annotate(
    graph: bytes, plan: Plan, specs: Mapping[tuple[str, str], Spec], mesh: Mesh, activations: Mapping[str, Any]
) -> bytes:
    """The graph with `specs`, from (kind, name) of the plan's tensors, on its parameters, and pins resolved on this mesh.

    Raises ShardingError for a pattern of `activations` that matches no pinned module or can't be applied.
    """
    module = parse("Module", graph)
    arguments = {tensor.argument: tensor for tensor in plan.tensors if tensor.argument is not None}
    pins: dict[str, tuple[int, ...]] = {}
    calls = []
    for computation in module.computations:
        entry = computation.id == module.entry_computation_id
        for instruction in computation.instructions:
            if instruction.metadata.op_name:
                instruction.metadata.op_name = _NUMBERED.sub(r"\1", instruction.metadata.op_name)
            if instruction.opcode == "parameter" and entry:
                tensor = arguments[instruction.parameter_number]
                _write(
                    instruction.sharding,
                    to_sharding(specs.get((tensor.kind, tensor.name), ((),) * len(tensor.shape)), mesh),
                )
            elif instruction.custom_call_target == "xla_mark_tensor":
                calls.append((str(json.loads(instruction.backend_config)["name"]), instruction))
    for name, instruction in calls:
        if name.startswith(PIN):
            pins.setdefault(name[len(PIN) :], tuple(instruction.shape.dimensions))
    chosen = pin_specs(pins, activations, mesh)
    for name, instruction in calls:
        if name.startswith(GRADIENT):
            spec = specs["parameter", name[len(GRADIENT) :]]
        elif pins[name[len(PIN) :]] == tuple(instruction.shape.dimensions):
            spec = chosen[name[len(PIN) :]]
        else:  # a module with several outputs: the pattern is for the first
            spec = _batch_spec(instruction.shape.dimensions, mesh)
        instruction.custom_call_target = "Sharding"
        instruction.ClearField("backend_config")
        _write(instruction.sharding, to_sharding(spec, mesh))
    module.ClearField("buffer_donor")
    for number, tensor in sorted(arguments.items()):
        if tensor.output is not None:
            module.buffer_donor.entries.add(parameter_number=number)
    written: bytes = module.SerializeToString()
    return written


def tensor_specs(plan: Plan, patterns: Mapping[str, Any], mesh: Mesh) -> dict[tuple[str, str], Spec]:
    """A spec for every tensor of the plan: parameters by pattern or like FSDP, the rest as their parameter or the batch.

    Raises ShardingError, see `assign`, `check_axes_used` and `check_batch`.
    """
    parameters = {tensor.name: tensor.shape for tensor in plan.of("parameter")}
    by_name = assign(parameters, patterns, mesh, "[tool.xla_sim.fit.parameters]")
    specs: dict[tuple[str, str], Spec] = {("parameter", name): spec for name, spec in by_name.items()}
    for tensor in plan.of("optimizer", "gradient", "base"):
        owner = tensor.name.partition("/")[0]
        specs[tensor.kind, tensor.name] = (
            _like(tensor, parameters[owner], by_name[owner]) if owner in by_name else ((),) * len(tensor.shape)
        )
    for tensor in plan.of("batch"):
        if plan.is_divided(tensor) and mesh.batch_axes:
            check_batch(tensor.name, tensor.shape, mesh)
            specs[tensor.kind, tensor.name] = _batch_spec(tensor.shape, mesh)
    return specs


def pin_specs(pins: Mapping[str, tuple[int, ...]], activations: Mapping[str, Any], mesh: Mesh) -> dict[str, Spec]:
    """A spec for each pinned activation: its pattern, or the batch axes on the first dimension."""
    chosen = assign(pins, activations, mesh, "[tool.xla_sim.fit.activations]") if activations else {}
    free = {name for name in pins if not any(fnmatch.fnmatchcase(name, pattern) for pattern in activations)}
    return {name: _batch_spec(shape, mesh) if name in free else chosen[name] for name, shape in pins.items()}


def _batch_spec(shape: Any, mesh: Mesh) -> Spec:
    return (mesh.batch_axes, *(() for _ in shape[1:]))


def _like(tensor: Tensor, shape: tuple[int, ...], spec: Spec) -> Spec:
    """Optimizer state as its parameter is sharded; of a factored one (Adafactor) the dimensions that are left."""
    if len(tensor.shape) == len(shape):
        return tuple(axes if size == full else () for size, full, axes in zip(tensor.shape, shape, spec))
    if tensor.shape == shape[:-1]:
        return spec[:-1]
    if len(shape) > 1 and tensor.shape == (*shape[:-2], shape[-1]):
        return (*spec[:-2], spec[-1])
    return ((),) * len(tensor.shape)


def _write(message: Any, sharding: Sharding) -> None:
    message.Clear()
    message.type = _TILED if sharding.tiles else _REPLICATED
    if sharding.tiles:
        message.tile_assignment_dimensions.extend(sharding.tiles)
        message.iota_reshape_dims.extend(sharding.mesh)
        message.iota_transpose_perm.extend(sharding.order)
        message.replicate_on_last_tile_dim = sharding.copies
    else:
        message.SetInParent()


__all__ = ["PIN", "ShardingError", "annotate", "check_axes_used", "pin_specs", "tensor_specs"]
