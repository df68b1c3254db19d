"""Does a traced step fit on a slice? Shard it, compile it, and say where each chip's memory goes.

Reads only plain files (`fit_plan.Plan` and its graph), so it runs where torch isn't installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xla_sim.compiler.chips import Topology
from xla_sim.compiler.results import Buffer, CompileRequest, CompileResult
from xla_sim.fit.annotate import annotate, tensor_specs
from xla_sim.fit.plan import BYTES, Plan, Tensor
from xla_sim.fit.sharding import Mesh, check_axes_used, check_topology, elements_per_chip, parse_spec

PARTS = ("parameters", "gradients", "optimizer", "activations", "weights", "temporaries", "batch", "code", "other")
_PART = {
    "parameter": "parameters",
    "optimizer": "optimizer",
    "batch": "batch",
    "gradient": "gradients",
    "base": "gradients",
}
_EVERY_BUFFER = 1_000_000


@dataclass(frozen=True)
class Question:
    """A traced step, and how it is to be laid out."""

    plan: Plan
    graph: bytes  # HloModuleProto, without shardings
    topology: Topology
    mesh: Mesh
    parameters: Mapping[str, Any] = field(default_factory=dict)  # patterns, as in [tool.xla_sim.fit.parameters]
    activations: Mapping[str, Any] = field(default_factory=dict)
    code: bool = True  # False: without generating code, which is then missing in the total


@dataclass(frozen=True)
class Answer:
    """Per chip, in bytes. `expected` is what arithmetic on shapes and shardings says, without tiles' padding, and `elements` what the
    compiler says without it, of the arguments."""

    question: Question
    result: CompileResult
    parts: Mapping[str, int]  # keys of PARTS
    expected: Mapping[str, int]  # parameters, optimizer, gradients, batch
    whole: tuple[str, ...]  # parameters that stay whole on each chip, because the mesh divides none of their dimensions
    elements: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def capacity(self) -> int:
        return self.question.topology.chip.capacity


def prepare(question: Question, directory: Path) -> CompileRequest:
    """Write the sharded graph into the directory and say how to compile it; raises ShardingError."""
    check_topology(question.mesh, question.topology.name, question.topology.devices)
    specs = tensor_specs(question.plan, question.parameters, question.mesh)
    patterns = [parse_spec(value, "") for value in question.activations.values()]
    check_axes_used(question.mesh, [*specs.values(), *patterns])
    sharded = annotate(question.graph, question.plan, specs, question.mesh, question.activations)
    name = hashlib.sha256(sharded).hexdigest()[:32]
    path = directory / "graphs" / f"{name}.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sharded)
    return CompileRequest(
        name, path, question.topology.name, question.topology.devices, buffers=_EVERY_BUFFER, code=question.code
    )


def answer(question: Question, result: CompileResult) -> Answer:
    """Class every buffer that is alive when a chip's memory is fullest."""
    specs = tensor_specs(question.plan, question.parameters, question.mesh)

    def held(tensor: Tensor) -> int:
        spec = specs.get((tensor.kind, tensor.name), ((),) * len(tensor.shape))
        return elements_per_chip(tensor.shape, spec, question.mesh) * BYTES.get(tensor.dtype, 4)

    tensors = question.plan.tensors
    expected = {part: sum(held(one) for one in tensors if _PART.get(one.kind) == part) for part in _PART.values()}
    whole = [one.name for one in question.plan.of("parameter") if not any(specs["parameter", one.name])]
    elements: dict[str, int] = {}
    for argument in result.arguments:
        part = part_of(argument, question.plan)
        elements[part] = elements.get(part, 0) + argument.logical
    return Answer(question, result, _parts(question.plan, result), expected, tuple(whole), elements)


def part_of(buffer: Buffer, plan: Plan) -> str:
    """Which of PARTS a buffer belongs to.

    The labels of fit_labels are in op_name: what the forward pass made and is still needed is an activation, whatever is gathered
    from its shards is a weight, and what the backward pass and the optimizer make is temporary.
    """
    if buffer.kind == "argument":
        by_number = {one.argument: one.kind for one in plan.tensors if one.argument is not None}
        return _PART.get(by_number.get(-1 if buffer.parameter is None else buffer.parameter, ""), "other")
    if buffer.kind == "output":
        return "gradients" if buffer.dims else "other"
    if _gathered(buffer, plan):
        return "weights"
    return "activations" if buffer.op_name.startswith("forward/") else "temporaries"


def _gathered(buffer: Buffer, plan: Plan) -> bool:
    """Whether it is a tensor whole again from its shards: by an all-gather, or by an all-reduce of shards padded with zeros, which
    is what the compiler makes of it for some slices and leaves without a name."""
    if "all-gather" in buffer.source:
        return True
    unnamed = "all-reduce" in buffer.source and not buffer.op_name
    return unnamed and any(one.shape == buffer.dims for one in plan.of("parameter"))


def _parts(plan: Plan, result: CompileResult) -> dict[str, int]:
    parts = dict.fromkeys(PARTS, 0)
    if result.hbm is None:
        return parts
    for buffer in result.buffers:
        parts[part_of(buffer, plan)] += buffer.bytes
    parts["code"] = result.hbm.code
    # the rest is what lies unused between the temporaries: the compiler counts the heap, not the tensors in it
    parts["temporaries"] += max(0, result.hbm.total - sum(parts.values()))
    return parts


def to_json(
    given: Answer, notes: Sequence[str], findings: Sequence[Mapping[str, Any]], status: str = ""
) -> dict[str, Any]:
    """The document fit.json, without a search."""
    plan, result, topology = given.question.plan, given.result, given.question.topology
    told = replace(result, buffers=result.buffers[:20]).to_json()
    buffers = [{**values, "part": part_of(one, plan)} for values, one in zip(told["buffers"], result.buffers)]
    return {
        "schema": 1,
        "kind": "fit",
        "target": plan.target,
        "parameters": plan.parameters,
        "batch_size": plan.batch_size,
        "topology": topology.name,
        "chips": topology.chips,
        "mesh": dict(given.question.mesh.axes),
        "status": status or result.status,
        "seconds": plan.seconds + result.seconds,
        "peak_rss": result.peak_rss,
        "hbm": {"capacity": given.capacity, **given.parts, "total": given.total} if result.hbm else None,
        "code_generated": given.question.code,
        "expected": dict(given.expected),
        "elements": dict(given.elements),
        "bound": told["bound"],
        "collectives": told["collectives"],
        "buffers": buffers,
        "message": result.message,
        "notes": list(notes),
        "search": None,
        "findings": list(findings),
    }
