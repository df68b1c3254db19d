"""A compiled program, read: instructions, shapes with their tiles, and the Python lines they come from."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from xla_sim.hlo.protos import parse
from xla_sim.ownership import is_user_file
from xla_sim.trace import Frame, Location

# xla/xla_data.proto, enum PrimitiveType: name and bits an element
_DTYPES: dict[int, tuple[str, int]] = {
    1: ("pred", 8), 2: ("s8", 8), 3: ("s16", 16), 4: ("s32", 32), 5: ("s64", 64), 6: ("u8", 8), 7: ("u16", 16),
    8: ("u32", 32), 9: ("u64", 64), 10: ("f16", 16), 11: ("f32", 32), 12: ("f64", 64), 13: ("tuple", 0), 15: ("c64", 64),
    16: ("bf16", 16), 17: ("token", 0), 18: ("c128", 128), 19: ("f8e5m2", 8), 20: ("f8e4m3fn", 8), 21: ("s4", 4),
    22: ("u4", 4), 23: ("f8e4m3b11fnuz", 8), 24: ("f8e5m2fnuz", 8), 25: ("f8e4m3fnuz", 8), 26: ("s2", 2), 27: ("u2", 2),
    28: ("f8e4m3", 8), 29: ("f8e3m4", 8), 32: ("f4e2m1fn", 4), 33: ("f8e8m0fnu", 8),
}  # fmt: skip
_SEARCHED = 64  # instructions, for a line
HBM = 0  # the memory space of HBM in layouts, and its color in buffer assignments


@dataclass(frozen=True)
class Shape:
    """An array as the compiler lays it out. Tuples have parts and nothing else."""

    dtype: str
    dims: tuple[int, ...] = ()
    order: tuple[int, ...] = ()  # dimensions from minor to major
    tiles: tuple[tuple[int, ...], ...] = ()  # T(8,128)(2,1) is ((8, 128), (2, 1))
    space: int = HBM
    parts: tuple[Shape, ...] = ()
    bits: int = 0

    @property
    def logical(self) -> int:
        """Bytes of the elements alone."""
        if self.dtype == "tuple":
            return sum(part.logical for part in self.parts)
        return -(-math.prod(self.dims) * self.bits // 8)

    @property
    def padded_dims(self) -> tuple[int, ...]:
        """The dimensions, each rounded up as the outermost tile wants it."""
        rounded = list(self.dims)
        for size, dimension in zip(reversed(self.tiles[0] if self.tiles else ()), self.order):
            rounded[dimension] = -(-rounded[dimension] // size) * size
        return tuple(rounded)

    @property
    def padded(self) -> int:
        """Bytes in tiles.

        A tile covers the minor-most dimensions, its last number the most minor one, and what remains is an array of tiles;
        a second tile divides the tiles of the first again, as T(8,128)(2,1) packs two rows of 16 bits into one of 32. Every
        division rounds up. Source: https://openxla.org/xla/tiled_layout
        """
        if self.dtype == "tuple":
            return sum(part.padded for part in self.parts)
        sides = [self.dims[dimension] for dimension in reversed(self.order)] or list(self.dims)
        for tile in self.tiles:
            outer = [1] * (len(tile) - len(sides)) + sides
            inner = outer[len(outer) - len(tile) :]
            sides = outer[: len(outer) - len(tile)] + [-(-side // size) for side, size in zip(inner, tile)] + list(tile)
        return -(-math.prod(sides) * self.bits // 8)

    def __str__(self) -> str:
        if self.dtype == "tuple":
            return "(" + ", ".join(map(str, self.parts)) + ")"
        text = f"{self.dtype}[{','.join(map(str, self.dims))}]"
        tiles = "".join(f"({','.join(map(str, tile))})" for tile in self.tiles)
        space = f"S({self.space})" if self.space else ""
        layout = f":{'T' if tiles else ''}{tiles}{space}" if tiles or space else ""
        return f"{text}{{{','.join(map(str, self.order))}{layout}}}" if self.dims or layout else text

    def at(self, index: Iterable[int]) -> Shape:
        """The part of a tuple at that index."""
        found = self
        for number in index:
            found = found.parts[number]
        return found

    def arrays(self) -> Iterator[Shape]:
        """The arrays in it, its own when it is one."""
        if self.dtype == "tuple":
            for part in self.parts:
                yield from part.arrays()
        else:
            yield self


def shape_of(message: Any) -> Shape:
    dtype, bits = _DTYPES.get(message.element_type, (f"type{message.element_type}", 0))
    layout = message.layout
    return Shape(
        dtype,
        tuple(message.dimensions),
        tuple(layout.minor_to_major),
        tuple(tuple(tile.dimensions) for tile in layout.tiles),
        layout.memory_space,
        tuple(map(shape_of, message.tuple_shapes)),
        bits,
    )


@dataclass(frozen=True)
class Instruction:
    """One instruction; `raw` is its message, for what only one kind of it has."""

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    called: tuple[int, ...]
    raw: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class Program:
    """A module by its parts."""

    module: Any
    assignment: Any  # None when there is none
    entry: int  # computation id
    computations: dict[int, tuple[Instruction, ...]]
    roots: dict[int, int]
    by_id: dict[int, Instruction]
    by_name: dict[str, Instruction]
    callers: dict[int, Instruction]  # of each instruction's id, the instruction that calls its computation

    def location(self, instruction: Instruction | None) -> Location:
        """The user's line that an instruction comes from, with its frames.

        Of what has none, that of the nearest instruction it is computed from: autograd's ops have no Python frame, and come
        from the forward op that they differentiate; copies and fusions are the compiler's own.
        """
        queue = [] if instruction is None else [instruction]
        seen: set[int] = set()
        while queue and len(seen) < _SEARCHED:
            one = queue.pop(0)
            if one.id in seen:
                continue
            seen.add(one.id)
            found = Location() if one.opcode == "parameter" and len(seen) > 1 else self._own_location(one)
            if found.line:
                return found
            roots = [self.roots[number] for number in one.called if number in self.roots]
            queue += [self.by_id[number] for number in (*roots, *one.operands) if number in self.by_id]
            queue += [self.callers[one.id]] if one.id in self.callers else []
        return Location()

    def _own_location(self, instruction: Instruction) -> Location:
        metadata = instruction.raw.metadata
        frames = self._frames(metadata.stack_frame_id)
        if not frames and metadata.source_file:
            frames = (Frame(metadata.source_file, metadata.source_line, ""),)
        if not frames:
            return Location()
        own = next((frame for frame in frames if is_user_file(frame.file)), frames[0])
        return Location(_relative(own.file), own.line, own.function, frames)

    def _frames(self, frame_id: int) -> tuple[Frame, ...]:
        index = self.module.stack_frame_index
        frames: list[Frame] = []
        while 0 < frame_id <= len(index.stack_frames) and len(frames) < 64:
            frame = index.stack_frames[frame_id - 1]
            where = index.file_locations[frame.file_location_id - 1]
            file = index.file_names[where.file_name_id - 1]
            frames.append(Frame(file, where.line, index.function_names[where.function_name_id - 1]))
            frame_id = frame.parent_frame_id
        return tuple(frames)


def _relative(file: str) -> str:
    """As people name it: below the working directory without it."""
    inside = os.path.relpath(file) if os.path.isabs(file) else file
    return file if inside.startswith("..") else inside


def read_module(data: bytes) -> Program:
    """A serialized HloModuleProto, as captured. Raises ValueError when it is none."""
    return _program(parse("Module", data), None)


def read_program(data: bytes) -> Program:
    """A serialized HloProto with the compiled program and its buffer assignment. Raises ValueError when it is none."""
    hlo = parse("Hlo", data)
    return _program(hlo.module, hlo.buffer_assignment)


def _program(module: Any, assignment: Any) -> Program:
    computations = {
        computation.id: tuple(map(_instruction, computation.instructions)) for computation in module.computations
    }
    if module.entry_computation_id not in computations:
        raise ValueError("the module has no entry computation")
    every = [instruction for body in computations.values() for instruction in body]
    callers = {inner.id: one for one in every for number in one.called for inner in computations.get(number, ())}
    return Program(
        module,
        assignment,
        module.entry_computation_id,
        computations,
        {computation.id: computation.root_id for computation in module.computations},
        {instruction.id: instruction for instruction in every},
        {instruction.name: instruction for instruction in every},
        callers,
    )


def _instruction(message: Any) -> Instruction:
    return Instruction(
        message.id,
        message.name,
        message.opcode,
        shape_of(message.shape),
        tuple(message.operand_ids),
        tuple(message.called_computation_ids),
        message,
    )
