"""Read HLO: parameters, shapes, dtypes, constants and ops of a graph, and say in words how two graphs differ.

A graph is a serialized ``HloModuleProto`` (field 1 of the ``HloProto`` that XLA dumps); `protos` declares its fields.
"""

from __future__ import annotations

import collections
import functools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xla_sim.hlo import protos

# xla/xla_data.proto, enum PrimitiveType: name and bytes an element
DTYPES: dict[int, tuple[str, float]] = {
    1: ("pred", 1), 2: ("s8", 1), 3: ("s16", 2), 4: ("s32", 4), 5: ("s64", 8), 6: ("u8", 1), 7: ("u16", 2),
    8: ("u32", 4), 9: ("u64", 8), 10: ("f16", 2), 11: ("f32", 4), 12: ("f64", 8), 13: ("tuple", 0),
    15: ("c64", 8), 16: ("bf16", 2), 17: ("token", 0), 18: ("c128", 16), 19: ("f8e5m2", 1), 20: ("f8e4m3fn", 1),
    21: ("s4", 0.5), 22: ("u4", 0.5),
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Element type as HLO writes it ("f32", "s64", "tuple") and dimensions; ``str()`` gives ``f32[64,128]``."""

    dtype: str
    dims: tuple[int, ...] = ()
    tuple_shapes: tuple[Shape, ...] = ()

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Logical bytes, without padding."""
        if self.tuple_shapes:
            return sum(shape.bytes for shape in self.tuple_shapes)
        size = next((size for name, size in DTYPES.values() if name == self.dtype), 0)
        return math.ceil(self.elements * size)

    def __str__(self) -> str:
        if self.dtype == "tuple":
            return "(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class Instruction:
    """One HLO instruction; ``file`` and ``line`` are where Python made it, as torch_xla recorded them."""

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]  # ids
    called: tuple[int, ...]  # ids of computations
    op_type: str  # "aten__addmm"
    op_name: str
    file: str
    line: int
    parameter: int  # number, for opcode "parameter"
    constant: str  # value of a constant with few elements, "" otherwise
    contracting: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of a dot: lhs, rhs
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of a dot: lhs, rhs
    attributes: tuple[int, ...] = ()  # dimensions and slice bounds: what else can differ between two graphs


@dataclass(frozen=True)
class Computation:
    id: int
    name: str
    root: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Module:
    """One graph."""

    name: str
    entry: Computation
    computations: tuple[Computation, ...]
    donated: tuple[int, ...] = ()  # parameter numbers whose buffers are donated or aliased to an output
    by_id: dict[int, Instruction] = field(default_factory=dict, compare=False, repr=False)

    @property
    def parameters(self) -> list[Instruction]:
        """The entry's parameters, by number."""
        return sorted((i for i in self.entry.instructions if i.opcode == "parameter"), key=lambda i: i.parameter)

    @property
    def outputs(self) -> tuple[Shape, ...]:
        root = self.by_id[self.entry.root]
        return root.shape.tuple_shapes if root.shape.dtype == "tuple" else (root.shape,)

    def instructions(self) -> Iterator[Instruction]:
        """Of every computation."""
        for computation in self.computations:
            yield from computation.instructions

    def ops(self) -> Counter[str]:
        """Torch ops (``aten::addmm``) where torch_xla recorded them, and how many HLO instructions each became."""
        return collections.Counter(torch_op(i.op_type) for i in self.entry.instructions if i.op_type)


def torch_op(op_type: str) -> str:
    """``aten__addmm`` as people write it: ``aten::addmm``."""
    return op_type.replace("__", "::", 1)


def parse(data: bytes) -> Module:
    """The graph in a serialized HloModuleProto.

    Raises:
        ValueError: when it is none.
    """
    message = protos.parse("Module", data)
    computations = tuple(_computation(c) for c in message.computations)
    entry = next((c for c in computations if c.id == message.entry_computation_id), None)
    if entry is None:
        raise ValueError("not an HloModuleProto: it has no entry computation")
    donated = {e.parameter_number for e in message.buffer_donor.entries}
    donated |= {e.parameter_number for e in message.input_output_alias.entries}
    by_id = {i.id: i for c in computations for i in c.instructions}
    return Module(message.name, entry, computations, tuple(sorted(donated)), by_id)


@functools.lru_cache(maxsize=64)
def load(path: Path) -> Module:
    """`parse` of a file, remembered."""
    return parse(path.read_bytes())


def module_of_dump(data: bytes) -> bytes:
    """The HloModuleProto inside an HloProto (what ``--xla_dump_hlo_as_proto`` writes): its field 1, verbatim.

    Raises:
        ValueError: when the file is torn.
    """
    if data[:1] != b"\x0a":
        raise ValueError("not an HloProto")
    size = shift = 0
    for offset, byte in enumerate(data[1:11], start=2):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            module = data[offset : offset + size]
            if len(module) != size:
                raise ValueError("the HloProto is torn")
            return module
    raise ValueError("not an HloProto")


def _computation(message: Any) -> Computation:
    return Computation(message.id, message.name, message.root_id, tuple(_instruction(i) for i in message.instructions))


def _shape(message: Any) -> Shape:
    dtype = DTYPES.get(message.element_type, (f"type{message.element_type}", 0))[0]
    return Shape(dtype, tuple(message.dimensions), tuple(_shape(s) for s in message.tuple_shapes))


def _instruction(message: Any) -> Instruction:
    dot, meta = message.dot_dimension_numbers, message.metadata
    attributes = list(message.dimensions)
    for bounds in message.slice_dimensions:
        attributes += [bounds.start, bounds.limit, bounds.stride]
    return Instruction(
        id=message.id,
        name=message.name,
        opcode=message.opcode,
        shape=_shape(message.shape),
        operands=tuple(message.operand_ids),
        called=tuple(message.called_computation_ids),
        op_type=meta.op_type,
        op_name=meta.op_name,
        file=meta.source_file,
        line=meta.source_line,
        parameter=message.parameter_number,
        constant=_constant(message) if message.opcode == "constant" else "",
        contracting=(tuple(dot.lhs_contracting_dimensions), tuple(dot.rhs_contracting_dimensions)),
        batch=(tuple(dot.lhs_batch_dimensions), tuple(dot.rhs_batch_dimensions)),
        attributes=tuple(attributes),
    )


def _constant(message: Any) -> str:
    literal = message.literal
    for kind in ("preds", "s32s", "s64s", "u32s", "u64s", "f32s", "f64s"):
        values = getattr(literal, kind)
        if values:
            return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values[:8])
    raw = literal.f16s or literal.bf16s
    return raw[:16].hex() if raw else ""
