"""HBM of a compiled program, from the compiler's own buffer assignment: sums, the buffers alive at the peak, and their padding.

The memory statistics of the executable won't do: their ``temp_size_in_bytes`` holds more than the compiler checks against the chip,
and there are none for a program that doesn't fit. tests/tpu reconciles these sums with the compiler's limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xla_sim.compiler.chips import Chip
from xla_sim.compiler.results import Buffer, Hbm, Padding
from xla_sim.hlo.program import HBM, Instruction, Program, Shape

_ALLOC, _FREE = 0, 1  # kinds of heap_simulator_traces' events
_REARRANGED = {"reshape", "copy", "bitcast", "transpose", "copy-start", "copy-done"}
_WORTH_NAMING = 4096  # bytes lost in one tensor, below which no list should mention it


def hbm(program: Program, chip: Chip, code: int) -> Hbm:
    """What the program takes of a device's HBM, in bytes."""
    arguments = outputs = aliased = temporaries = 0
    for allocation in _in_hbm(program):
        if allocation.is_entry_computation_parameter:
            arguments += allocation.size
            aliased += allocation.size if allocation.maybe_live_out else 0
        elif allocation.maybe_live_out:
            outputs += allocation.size
        else:
            temporaries += allocation.size
    total = arguments + outputs + temporaries + code
    return Hbm(chip.capacity, arguments, outputs + aliased, aliased, temporaries, code, total)


def at_peak(program: Program) -> list[Buffer]:
    """The tensors in HBM when it is fullest, the largest first: arguments and outputs always, temporaries that are alive then."""
    logical = {buffer.id: buffer for buffer in program.assignment.logical_buffers}
    traces = {trace.buffer_allocation_index: trace for trace in program.assignment.heap_simulator_traces}
    found = []
    for allocation in _in_hbm(program):
        kind = "argument" if allocation.is_entry_computation_parameter else "temporary"
        kind = "output" if kind == "temporary" and allocation.maybe_live_out else kind
        ids = [assigned.logical_buffer_id for assigned in allocation.assigned]
        if kind == "temporary" and allocation.index in traces and len(ids) > 1:
            ids = sorted(_alive(traces[allocation.index].events, logical) & set(ids))
        else:
            ids = _whose(program, ids, logical, kind)
        made = [_buffer(program, logical[number], kind, allocation) for number in ids]
        found += [buffer for buffer in made if buffer is not None]
    return sorted(found, key=lambda buffer: -buffer.bytes)


def arguments(program: Program, buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Those of `buffers` that are the program's arguments, by number."""
    return tuple(sorted((one for one in buffers if one.parameter is not None), key=lambda one: one.parameter or 0))


def padding(buffers: Sequence[Buffer]) -> Padding:
    """Elements against tiles, in sum and for the tensors that lose most."""
    wasteful = sorted(
        (one for one in buffers if one.padded - one.logical >= _WORTH_NAMING), key=lambda one: one.logical - one.padded
    )
    return Padding(sum(one.logical for one in buffers), sum(one.padded for one in buffers), tuple(wasteful[:10]))


def _in_hbm(program: Program) -> list[Any]:
    return [one for one in program.assignment.buffer_allocations if one.color == HBM and not one.is_thread_local]


def _alive(events: Iterable[Any], logical: dict[int, Any]) -> set[int]:
    """The buffers of one heap that are alive when it is fullest, a shared one counted once."""
    sizes: dict[int, int] = {}
    total = most = 0
    fullest: set[int] = set()
    for event in events:
        if event.kind == _FREE:
            total -= sizes.pop(event.buffer_id, 0)
        else:
            size = logical[event.buffer_id].size if event.kind == _ALLOC and event.buffer_id in logical else 0
            sizes[event.buffer_id] = size
            total += size
        if total > most:
            most, fullest = total, {number for number, size in sizes.items() if size}
    return fullest


def _whose(program: Program, ids: list[int], logical: dict[int, Any], kind: str) -> list[int]:
    """Of the values that share one allocation, the one to name: the argument itself, or else the largest that isn't a tuple."""

    def rank(number: int) -> tuple[bool, bool, int]:
        instruction = program.by_id.get(logical[number].defined_at.instruction_id)
        opcode = instruction.opcode if instruction else ""
        return (opcode == "parameter") == (kind == "argument"), opcode != "tuple", logical[number].size

    known = [number for number in ids if number in logical]
    return [max(known, key=rank)] if known else []


def _source(program: Program, instruction: Instruction) -> Instruction:
    """What made the value, through the compiler's own rearrangements of it, which bear no name of the user's."""
    while instruction.opcode in _REARRANGED and not instruction.raw.metadata.op_name and instruction.operands:
        made = program.by_id.get(instruction.operands[0])
        if made is None:
            break
        instruction = made
    return instruction


def _buffer(program: Program, buffer: Any, kind: str, allocation: Any) -> Buffer | None:
    instruction = program.by_id.get(buffer.defined_at.instruction_id)
    if instruction is None:
        return None
    shape: Shape = instruction.shape.at(buffer.defined_at.shape_index)
    if shape.dtype in ("tuple", "token"):
        return None
    source = _source(program, instruction)
    return Buffer(
        name=instruction.name,
        kind=kind,
        shape=str(shape),
        logical=shape.logical,
        padded=shape.padded,
        bytes=buffer.size,
        op_name=source.raw.metadata.op_name,
        parameter=allocation.parameter_number if kind == "argument" else None,
        dims=shape.dims,
        padded_dims=shape.padded_dims,
        location=program.location(instruction),
        source=source.name,
    )
