"""One compilation from the graph's bytes to a `CompileResult`: what a worker's child does."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xla_sim.compiler.chips import find_topology
from xla_sim.compiler.libtpu import Compiled, compile_graph
from xla_sim.compiler.narrow import WIDE, narrow, wide_types
from xla_sim.compiler.results import Buffer, CompileResult
from xla_sim.hlo.loops import trip_counts
from xla_sim.hlo.program import Program, read_module, read_program
from xla_sim.trace import Location
from xla_sim.verdict import memory, traffic
from xla_sim.verdict.donation import held_twice

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_HBM_FULL = re.compile(r"Ran out of memory (?:on|in memory space) hbm", re.IGNORECASE)
# "Program hbm requirement 30.75G:" and, indented below it, what that is the sum of
_PROGRAM = re.compile(r"^Program hbm requirement .*\n((?:[ \t]+\S.*\n)+)", re.MULTILINE)
_PART = re.compile(r"^\s+(?!HLO temp)\S.*?\s([\d.]+)([KMGT]?)B?\b", re.MULTILINE)
_EXCEEDED = re.compile(r"Exceeded hbm capacity by ([\d.]+)([KMGT]?)")
_ERROR_NUMBER = re.compile(r"\[type\.googleapis\.com.*", re.DOTALL)


def compile_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile what the request names and judge it; hands back `CompileResult.to_json`.

    Raises OSError when the disk didn't take all that the compiler writes: a verdict without its figures is none.
    """
    graph = Path(request["hlo"]).read_bytes()
    given = read_module(graph)
    topology = find_topology(request["topology"])
    used = narrow(graph) if request["narrow"] else graph
    options = tuple((str(name), str(value)) for name, value in request["options"])
    compiled = compile_graph(used, topology.name, request["partitions"], options, request["dump"], request["code"])
    program = _laid_out(compiled)
    status = _status(compiled)
    common: dict[str, Any] = {
        "graph": request["graph"],
        "chip": topology.chip.name,
        "topology": topology.name,
        "chips": request["partitions"],
        "status": status,
        "seconds": round(compiled.seconds, 3),
        "message": _ERROR_NUMBER.sub("", compiled.error).strip(),
        "narrowed": request["narrow"],
        "wide": tuple(WIDE[kind] for kind in wide_types(graph)) if request["narrow"] else (),
    }
    if status == "rejected" or program is None:
        return CompileResult(**common, location=blamed(given, compiled.error)).to_json()
    hbm = memory.hbm(program, topology.chip, compiled.code)
    if _EXCEEDED.search(compiled.error):
        hbm = memory.hbm(program, topology.chip, _code_in(compiled.error, hbm.capacity - hbm.total))
    if not request["code"] and status == "ok" and hbm.total > hbm.capacity:
        common["status"] = status = "oom"  # it was stopped before it could say so
    buffers = [_named(program, given, buffer) for buffer in memory.at_peak(program)]
    work = traffic.work(program, trip_counts(given, program))
    arguments = memory.arguments(program, buffers)
    return CompileResult(
        **common,
        hbm=hbm,
        padding=memory.padding(buffers),
        bound=traffic.bound(work, topology.chip) if status == "ok" else None,
        flops=compiled.flops,
        bytes_accessed=compiled.bytes_accessed,
        buffers=tuple(buffers[: request["buffers"]]),
        arguments=arguments,
        held_twice=held_twice(given, arguments),
        collectives=work.collectives,
    ).to_json()


def _laid_out(compiled: Compiled) -> Program | None:
    """The program as the compiler left it; None where it stopped before there was one."""
    if compiled.program is None and compiled.error:
        return None
    try:
        program = read_program(compiled.program or b"")
    except ValueError as error:
        raise OSError(errno.ENOSPC, f"the compiler's program was not written whole ({error})") from error
    if not len(program.assignment.buffer_allocations):
        raise OSError(errno.ENOSPC, "the compiler's program was written without its buffers")
    return program


def _status(compiled: Compiled) -> str:
    if not compiled.error:
        return "ok"
    return "oom" if _HBM_FULL.search(compiled.error) else "rejected"


def _code_in(message: str, free: int) -> int:
    """Bytes of code, where the compiler got so far before it found HBM too small.

    It tells them in three digits, and by how much the program is too large: so there are that many more than the `free` bytes.
    """
    program = _PROGRAM.search(message)
    told = sum(map(_bytes, _PART.finditer(program.group(1)))) if program else 0
    return max(told, *(free + _bytes(found) for found in _EXCEEDED.finditer(message)))


def _bytes(found: re.Match[str]) -> int:
    return int(float(found.group(1)) * _UNITS[found.group(2)])


def _named(program: Program, given: Program, buffer: Buffer) -> Buffer:
    """An argument with the line that made it, where the compiled program lost it but the captured graph has it."""
    if buffer.parameter is None or buffer.location.line:
        return buffer
    for instruction in given.computations[given.entry]:
        if instruction.opcode == "parameter" and instruction.raw.parameter_number == buffer.parameter:
            values = {**buffer.__dict__, "location": given.location(instruction)}
            return Buffer(**values)
    return buffer


def blamed(given: Program, message: str) -> Location:
    """The line of what the compiler refused: the instruction it names, or the only kind of op whose shape it quotes."""
    names = re.findall(r"%?([A-Za-z_][\w.\-]*)", message)
    for name in names:
        instruction = given.by_name.get(name)
        if instruction is not None and instruction.opcode not in ("parameter", "constant"):
            return given.location(instruction)
    shapes = set(re.findall(r"\b[a-z]+\d+[a-z0-9]*\[[\d,]*\]", message))
    words = {word.lower() for word in re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*", message)}
    ranked = []
    for instruction in given.by_id.values():
        involved = [instruction.shape, *(given.by_id[one].shape for one in instruction.operands if one in given.by_id)]
        quoted = sum(_plain(shape) in shapes for part in involved for shape in part.arrays())
        said = instruction.opcode.lower() in words or _target(instruction.raw) in words
        if said or quoted:
            ranked.append(((said, quoted), instruction))
    best: tuple[Any, Any] | None = max(ranked, key=lambda one: one[0], default=None)
    return given.location(best[1]) if best is not None else Location()


def _target(message: Any) -> str:
    return str(message.custom_call_target).lower()


def _plain(shape: Any) -> str:
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"
