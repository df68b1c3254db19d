"""A graph with its wide types narrowed, to compile it both ways: float64 as float32, int64 as int32, complex128 as complex64."""

from __future__ import annotations

from typing import Any

from xla_sim.hlo.protos import parse

_S32, _S64, _F32, _F64, _C64, _C128 = 4, 5, 11, 12, 15, 18
_NARROWER = {_F64: _F32, _S64: _S32, _C128: _C64}
WIDE = {"f64": "float64", "c128": "complex128", "s64": "int64"}


def narrow(graph: bytes) -> bytes:
    """The serialized HloModuleProto with every wide shape and constant narrowed; unsigned integers stay, random bits need them.

    Integers that don't fit saturate. Raises ValueError when it is no module.
    """
    module = parse("Module", graph)
    _program_shape(module.host_program_shape)
    for computation in module.computations:
        _program_shape(computation.program_shape)
        for instruction in computation.instructions:
            _shape(instruction.shape)
            if instruction.HasField("literal"):
                _literal(instruction.literal)
    narrowed: bytes = module.SerializeToString()
    return narrowed


def wide_types(graph: bytes) -> dict[str, int]:
    """Which wide types the graph computes in, and in how many instructions; indices, constants and scalars don't count."""
    counts: dict[str, int] = {}
    names = {_F64: "f64", _C128: "c128", _S64: "s64"}
    idle: tuple[str, ...] = ("parameter", "constant", "tuple", "get-tuple-element", "convert", "iota", "broadcast")
    for computation in parse("Module", graph).computations:
        for instruction in computation.instructions:
            kind = names.get(instruction.shape.element_type)
            if kind and instruction.shape.dimensions and instruction.opcode not in idle:
                counts[kind] = counts.get(kind, 0) + 1
    return counts


def _program_shape(program: Any) -> None:
    for parameter in program.parameters:
        _shape(parameter)
    if program.HasField("result"):
        _shape(program.result)


def _shape(shape: Any) -> None:
    shape.element_type = _NARROWER.get(shape.element_type, shape.element_type)
    for part in shape.tuple_shapes:
        _shape(part)


def _literal(literal: Any) -> None:
    _shape(literal.shape)
    literal.f32s.extend(literal.f64s)
    literal.c64s.extend(literal.c128s)
    literal.s32s.extend(max(-(2**31), min(2**31 - 1, value)) for value in literal.s64s)
    for wide in ("f64s", "s64s", "c128s"):
        literal.ClearField(wide)
