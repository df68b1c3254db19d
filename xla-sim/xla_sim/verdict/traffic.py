"""What a compiled program must move and multiply: HBM traffic, matrix FLOP and collectives of one execution on one device.

Everything is counted from below, so that the bound made of it is a lower bound: an operand is read once an instruction, a slice
only where it is cut, a loop of unknown length runs once, and what the compiler keeps in on-chip memory moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sim.compiler.chips import Chip
from xla_sim.compiler.results import Bound, Collective, Transfer
from xla_sim.hlo.program import HBM, Instruction, Program, Shape

_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id", "domain",
    "opt-barrier", "add-dependency", "send", "send-done", "recv", "recv-done", "infeed", "outfeed",
}  # fmt: skip
_MOVES = {"copy", "copy-start", "copy-done", "bitcast"}
_CUTS = {"dynamic-slice", "slice", "gather"}
# how the compiler writes an all-gather for some slices (v5p): the sum of the shards, each padded with zeros; it moves twice the bytes
GATHERED = "all-gather-by-all-reduce"
_KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")


@dataclass(frozen=True)
class Work:
    """Of one execution."""

    matrix_flops: float
    hbm_bytes: float
    collectives: tuple[Collective, ...]


def bound(work: Work, chip: Chip) -> Bound:
    """The time that public peaks allow: FLOP/s of bf16 for the matrix unit, bytes/s for HBM."""
    compute = work.matrix_flops / chip.peak_flops
    memory = work.hbm_bytes / chip.bandwidth
    seconds = max(compute, memory)
    return Bound(seconds, compute, memory, compute / seconds if seconds else 0.0, work.matrix_flops, work.hbm_bytes)


def work(program: Program, turns: dict[int, int]) -> Work:
    """Count it; `turns` are those of its loops, from `loops.trip_counts`."""
    flops = moved = 0.0
    # by channel, of which one collective has one, and by instruction
    pieces: dict[tuple[bool, int, bool], dict[int, _Piece]] = {}
    for instruction, times, fusion in _executed(program, program.entry, 1, None, turns):
        flops += times * matrix_flops(program, instruction)
        if fusion is None:
            moved += times * _moved(program, instruction)
        for kind, operands in _collected(program, instruction, fusion is not None):
            channel: int = instruction.raw.channel_id
            of_one = pieces.setdefault((channel > 0, channel or instruction.id, kind == GATHERED), {})
            before = of_one[instruction.id].times if instruction.id in of_one else 0
            of_one[instruction.id] = _Piece(kind, before + times, _transfer(program, instruction, fusion, operands))
    return Work(flops, moved, _collectives([list(of_one.values()) for of_one in pieces.values()]))


@dataclass(frozen=True)
class _Piece:
    """An instruction of a collective. An asynchronous one has several: the TPU compiler fuses its start, its steps and its end with
    what runs meanwhile, and each fusion holds a copy of the whole collective."""

    kind: str
    times: int
    transfer: Transfer


def _collectives(found: Iterable[Sequence[_Piece]]) -> tuple[Collective, ...]:
    """By kind, from the pieces of each collective."""
    whole: dict[str, list[_Piece]] = {}
    for pieces in found:
        largest = max(pieces, key=lambda piece: piece.transfer.bytes)
        scattered = any(piece.kind == "reduce-scatter" for piece in pieces)  # its end alone tells
        kind = "reduce-scatter" if scattered else largest.kind
        whole.setdefault(kind, []).append(_Piece(kind, max(piece.times for piece in pieces), largest.transfer))
    collectives = [
        Collective(
            kind,
            sum(one.times for one in ones),
            sum(one.times * one.transfer.bytes for one in ones),
            max((one.transfer for one in ones), key=lambda transfer: transfer.bytes),
        )
        for kind, ones in whole.items()
    ]
    return tuple(sorted(collectives, key=lambda one: -one.bytes))


def _executed(
    program: Program, computation: int, times: int, fusion: Instruction | None, turns: dict[int, int]
) -> Iterator[tuple[Instruction, int, Instruction | None]]:
    """Every instruction with how often it runs, and the fusion that it is part of; of branches those of the first."""
    for instruction in program.computations[computation]:
        yield instruction, times, fusion
        opcode = instruction.opcode
        if opcode == "while":
            again = times * turns.get(instruction.id, 1)
            yield from _executed(program, instruction.called[0], again, fusion, turns)
        elif opcode in ("fusion", "async-start", "call", "conditional") and instruction.called:
            inside = fusion or (instruction if opcode in ("fusion", "async-start") else None)
            yield from _executed(program, instruction.called[0], times, inside, turns)


def _moved(program: Program, instruction: Instruction) -> float:
    """HBM bytes that one execution reads and writes."""
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith(("-done", "-update")) or opcode in ("while", "call", "conditional"):
        return 0
    operands = [program.by_id[number] for number in dict.fromkeys(instruction.operands) if number in program.by_id]
    if opcode == "dynamic-update-slice" or opcode == "scatter":
        return 2 * _bytes(operands[-1 if opcode == "scatter" else 1].shape)
    written = _written(instruction)
    if opcode == "custom-call":
        if not instruction.raw.custom_call_target.startswith("X64"):
            return 0  # may be a buffer that nobody writes yet, or a kernel that works in place
        # the halves of 64-bit numbers, split and combined: what is written is read once, whoever reads the rest
        return written + min(instruction.shape.logical, sum(_bytes(operand.shape) for operand in operands))
    if opcode in _CUTS:
        return written + (min(written, _bytes(operands[0].shape)) if _bytes(operands[0].shape) else 0)
    if opcode in ("fusion", "async-start") and instruction.called:
        return _moved_by_fusion(program, instruction)
    return written + sum(_bytes(operand.shape) for operand in operands)


def _moved_by_fusion(program: Program, fusion: Instruction) -> float:
    body = program.computations[fusion.called[0]]
    users: dict[int, list[Instruction]] = {}
    for instruction in body:
        for operand in instruction.operands:
            users.setdefault(operand, []).append(instruction)
    root = program.by_id[program.roots[fusion.called[0]]]
    written = _written(fusion)
    updated = _updated(program, root)
    if updated is not None:
        written = min(written, updated)
    read = 0.0
    for parameter in (one for one in body if one.opcode == "parameter"):
        outer = program.by_id.get(fusion.operands[parameter.raw.parameter_number])
        whole = _bytes(outer.shape) if outer is not None else 0
        uses = users.get(parameter.id, [])
        if whole and all(_touches_part(use, parameter) for use in uses):
            whole = min(whole, sum(_part(program, use, parameter) for use in uses))
        read += whole
    return written + read


def _touches_part(use: Instruction, parameter: Instruction) -> bool:
    return use.opcode in _CUTS or (
        use.opcode in ("dynamic-update-slice", "scatter") and use.operands[:1] == (parameter.id,)
    )


def _part(program: Program, use: Instruction, parameter: Instruction) -> int:
    return use.shape.logical if use.opcode in _CUTS and use.operands[:1] == (parameter.id,) else 0


def _updated(program: Program, root: Instruction) -> int | None:
    """Bytes that a fusion ending in an update in place writes; None when it doesn't end so."""
    while root.opcode in ("bitcast", "copy", "convert") and root.operands[0] in program.by_id:
        root = program.by_id[root.operands[0]]
    if root.opcode == "dynamic-update-slice":
        return program.by_id[root.operands[1]].shape.logical
    if root.opcode == "scatter":
        return program.by_id[root.operands[-1]].shape.logical
    return None


def _written(instruction: Instruction) -> int:
    shape = instruction.shape
    if instruction.opcode.endswith("-start") and shape.parts:
        first = instruction.opcode in ("copy-start", "all-reduce-start")
        shape = shape.parts[0 if first else min(1, len(shape.parts) - 1)]
    return _bytes(shape)


def _bytes(shape: Shape) -> int:
    """Of what lies in HBM."""
    return sum(array.logical for array in shape.arrays() if array.space == HBM)


def matrix_flops(program: Program, instruction: Instruction) -> float:
    """FLOP on the matrix unit: two for each multiplication of a dot or convolution that meets a real element of its input."""
    out: int = math.prod(instruction.shape.dims)
    if instruction.opcode == "dot":
        lhs = program.by_id[instruction.operands[0]].shape
        contracted = instruction.raw.dot_dimension_numbers.lhs_contracting_dimensions
        inner: int = math.prod(lhs.dims[dimension] for dimension in contracted)
        return 2.0 * out * inner
    if instruction.opcode != "convolution":
        return 0.0
    numbers = instruction.raw.convolution_dimension_numbers
    data, kernel = (program.by_id[number].shape for number in instruction.operands[:2])
    for dimension in numbers.output_spatial_dimensions:
        out //= max(1, instruction.shape.dims[dimension])
    pairs = 1
    for window, at, to in zip(
        instruction.raw.window.dimensions, numbers.input_spatial_dimensions, numbers.output_spatial_dimensions
    ):
        pairs *= _pairs(window, data.dims[at], instruction.shape.dims[to])
    features: int = kernel.dims[numbers.kernel_input_feature_dimension]
    return 2.0 * out * pairs * features


def _pairs(window: Any, size: int, out: int) -> int:
    """Along one dimension, how many pairs of an output position and a kernel position meet an input element."""
    stride, dilation, base = window.stride or 1, window.window_dilation or 1, window.base_dilation or 1
    last = (size - 1) * base
    count = 0
    for position in range(window.size):
        start = position * dilation - window.padding_low
        for first in range(min(base, out)):
            if (first * stride + start) % base:
                continue
            step = base * stride  # outputs first, first + base, … read start + first * stride, + step, …
            at = first * stride + start
            low = max(0, -(at // step)) if at < 0 else 0
            high = min((last - at) // step, (out - 1 - first) // base)
            count += max(0, high - low + 1)
    return count


def _collected(program: Program, instruction: Instruction, fused: bool) -> Iterator[tuple[str, Sequence[int] | None]]:
    """What the instruction is a collective of: kinds, with the operands of each where there are two (None: all of it).

    The compiler combines all-reduces, so that one can gather some tensors and sum others.
    """
    opcode = instruction.opcode.removesuffix("-start")
    if opcode == "ragged-all-to-all":
        yield "all-to-all", None
    elif opcode == "all-reduce" and fused and _is_scattered(program, instruction):
        yield "reduce-scatter", None
    elif opcode == "all-reduce" and not fused:
        gathered = [number for number in instruction.operands if _is_padded_shard(program, number)]
        summed = [number for number in instruction.operands if number not in gathered]
        if gathered:
            yield GATHERED, gathered
        if summed:
            yield "all-reduce", summed if gathered else None
    elif opcode in _KINDS:
        yield opcode, None


def _is_padded_shard(program: Program, number: int) -> bool:
    """Whether a value is a shard written into zeros."""
    made = program.by_id.get(number)
    while made is not None and made.opcode in _MOVES and made.operands:
        made = program.by_id.get(made.operands[0])
    if made is None:
        return False
    root = program.by_id[program.roots[made.called[0]]] if made.opcode == "fusion" and made.called else made
    if root.opcode != "dynamic-update-slice":
        return False
    base = program.by_id.get(root.operands[0])
    if root is not made and base is not None and base.opcode == "parameter":
        base = program.by_id.get(made.operands[base.raw.parameter_number])
    return base is not None and base.opcode in ("broadcast", "constant")


def _is_scattered(program: Program, reduce: Instruction) -> bool:
    """Whether a fused all-reduce keeps only each device's slice: how the TPU compiler writes a reduce-scatter."""
    for body in program.computations.values():
        users = [one for one in body if reduce.id in one.operands]
        if users:
            return all(one.opcode == "dynamic-slice" for one in users)
    return False


def _transfer(
    program: Program, instruction: Instruction, fusion: Instruction | None, operands: Sequence[int] | None
) -> Transfer:
    """Of the whole collective, or of some of its operands."""
    given = [program.by_id[number].shape for number in operands or instruction.operands if number in program.by_id]
    shape = instruction.shape
    if instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start" and len(shape.parts) > 1:
        shape = shape.parts[1]
    if operands and given:
        shape = max(given, key=lambda one: one.logical)
    location = program.location(instruction)
    if not location.line and fusion is not None:
        location = program.location(fusion)
    op_name = instruction.raw.metadata.op_name or (fusion.raw.metadata.op_name if fusion is not None else "")
    bytes = sum(one.logical for one in given)
    return Transfer(max(bytes, shape.logical), instruction.name, str(shape), op_name, location)
