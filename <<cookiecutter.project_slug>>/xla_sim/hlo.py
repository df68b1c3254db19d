"""Read HLO: parameters, shapes, dtypes, constants and ops of a graph, and say in words how two graphs differ.

A graph is a serialized ``HloModuleProto`` (field 1 of the ``HloProto`` that XLA dumps). XLA ships no Python package for
that message, so the few fields that are read here are declared below, by the numbers of xla/service/hlo.proto and
xla/xla_data.proto, and the protobuf package does the parsing; unknown fields are kept out of sight.
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

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# message: {field: (number, type, repeated)}; a type in capitals is another message of this table
_FIELDS: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Module": {
        "name": (1, "string", False),
        "entry_computation_id": (6, "int64", False),
        "computations": (3, "Computation", True),
        "input_output_alias": (8, "AliasConfig", False),
        "buffer_donor": (18, "DonorConfig", False),
    },
    "AliasConfig": {"entries": (1, "AliasEntry", True)},
    "AliasEntry": {
        "output_shape_index": (1, "int64", True),
        "parameter_number": (2, "int64", False),
    },
    "DonorConfig": {"entries": (1, "DonorEntry", True)},
    "DonorEntry": {"parameter_number": (1, "int64", False)},
    "Computation": {
        "name": (1, "string", False),
        "instructions": (2, "Instruction", True),
        "id": (5, "int64", False),
        "root_id": (6, "int64", False),
    },
    "Instruction": {
        "name": (1, "string", False),
        "opcode": (2, "string", False),
        "shape": (3, "Shape", False),
        "metadata": (7, "Metadata", False),
        "literal": (8, "Literal", False),
        "parameter_number": (9, "int64", False),
        "dimensions": (14, "int64", True),
        "dot_dimension_numbers": (30, "DotDims", False),
        "slice_dimensions": (17, "SliceDims", True),
        "custom_call_target": (28, "string", False),
        "id": (35, "int64", False),
        "operand_ids": (36, "int64", True),
        "called_computation_ids": (38, "int64", True),
    },
    "DotDims": {
        "lhs_contracting_dimensions": (1, "int64", True),
        "rhs_contracting_dimensions": (2, "int64", True),
        "lhs_batch_dimensions": (3, "int64", True),
        "rhs_batch_dimensions": (4, "int64", True),
    },
    "SliceDims": {"start": (1, "int64", False), "limit": (2, "int64", False), "stride": (3, "int64", False)},
    "Shape": {
        "element_type": (2, "int32", False),
        "dimensions": (3, "int64", True),
        "tuple_shapes": (4, "Shape", True),
    },
    "Metadata": {
        "op_type": (1, "string", False),
        "op_name": (2, "string", False),
        "source_file": (3, "string", False),
        "source_line": (4, "int32", False),
    },
    "Literal": {
        "preds": (2, "bool", True),
        "s32s": (4, "int32", True),
        "s64s": (5, "int64", True),
        "u32s": (6, "uint32", True),
        "u64s": (7, "uint64", True),
        "f32s": (8, "float", True),
        "f64s": (9, "double", True),
        "f16s": (10, "bytes", False),
        "bf16s": (13, "bytes", False),
    },
}
# xla/xla_data.proto, enum PrimitiveType: name and bytes an element
DTYPES: dict[int, tuple[str, float]] = {
    1: ("pred", 1), 2: ("s8", 1), 3: ("s16", 2), 4: ("s32", 4), 5: ("s64", 8), 6: ("u8", 1), 7: ("u16", 2),
    8: ("u32", 4), 9: ("u64", 8), 10: ("f16", 2), 11: ("f32", 4), 12: ("f64", 8), 13: ("tuple", 0),
    15: ("c64", 8), 16: ("bf16", 2), 17: ("token", 0), 18: ("c128", 16), 19: ("f8e5m2", 1), 20: ("f8e4m3fn", 1),
    21: ("s4", 0.5), 22: ("u4", 0.5),
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def _messages() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="xla_sim_hlo.proto", package="xla_sim", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            entry = declared.field.add(name=name, number=number)
            entry.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind in _FIELDS:
                entry.type = kinds.TYPE_MESSAGE
                entry.type_name = f".xla_sim.{kind}"
            else:
                entry.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"xla_sim.{name}")) for name in _FIELDS}


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
    message = _messages()["Module"]()
    try:
        message.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError has no public home that is the same in all its versions
        raise ValueError(f"not an HloModuleProto: {error}") from error
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
