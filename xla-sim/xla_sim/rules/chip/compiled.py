"""What the rules that judge the TPU compiler's results share: one finding for what is the same, buffers in words and as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_sim.trace import Location

MIB, GIB = 2**20, 2**30
NAMED = 5  # buffers in a finding's evidence


def grouped(results: Sequence[Any], by_message: bool = True, place: Any = None) -> list[list[Any]]:
    """Results that say the same: one finding for the chips and graphs that fail at one line or on one graph."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for one in results:
        location = place(one) if place else (blamed(one) if one.status == "oom" else one.location)
        line = (location.file, location.line) if location.line and by_message else one.graph
        groups.setdefault((one.status, line), []).append(one)
    return list(groups.values())


def blamed(result: Any) -> Location:
    """The line of the largest buffer that has one: temporaries first, a parameter's size is seldom the choice."""
    buffers = sorted(result.buffers, key=lambda buffer: (buffer.kind == "argument", -buffer.bytes))
    large = [one for one in buffers if one.location.line and 4 * one.bytes >= max(b.bytes for b in buffers)]
    found: Location = (large or [one for one in buffers if one.location.line] or [result])[0].location
    return found


def chips(group: Sequence[Any]) -> str:
    names = list(dict.fromkeys(one.chip if one.chips == 1 else one.topology for one in group))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def hashes(group: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(one.graph for one in group))


def topologies(group: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(one.topology for one in group))


def in_words(buffer: Any) -> str:
    where = f" ({buffer.location})" if buffer.location.line else ""
    held = (
        f"{size_in_words(buffer.padded)} for {size_in_words(buffer.logical)} of elements"
        if buffer.padded > buffer.logical
        else size_in_words(buffer.padded)
    )
    return f"{buffer.shape.partition('{')[0]}, {held}{where}"


def size_in_words(count: int) -> str:
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def as_evidence(buffer: Any) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "kind": buffer.kind,
        "shape": buffer.shape,
        "logical": buffer.logical,
        "padded": buffer.padded,
        "op": buffer.op_name,
        "file": buffer.location.file,
        "line": buffer.location.line,
    }
