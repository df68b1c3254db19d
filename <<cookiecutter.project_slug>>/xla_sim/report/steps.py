"""The timeline of the report document: steps that are alike are one entry, so 1000 steps stay small."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from xla_sim.trace import Execution, Location, Step

MOST_ENTRIES = 1000  # of the timeline; what exceeds it is summed up in one entry in the middle
MOST_EXECUTIONS = 100  # listed per entry; all are counted


def brief(location: Location) -> dict[str, Any]:
    """The location without its frames."""
    return {"file": location.file, "line": location.line, "function": location.function}


def timeline(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Entries in order; ``executed``, ``compiled`` and ``cuts`` are sums over the entry, bytes are per step."""
    entries: list[dict[str, Any]] = []
    last: Step | None = None
    for step in steps:
        if not step.works and not step.to_device and not step.to_host:
            continue
        if last is not None and _alike(last, step) and entries[-1]["last"] == step.index - 1:
            entries[-1] = _joined(entries[-1], _entry(step))
        else:
            entries.append(_entry(step))
        last = step
    return _bounded(entries)


def _alike(one: Step, other: Step) -> bool:
    """Whether two steps did the same, apart from bytes that were measured at only one of them."""

    def key(step: Step) -> Step:
        return dataclasses.replace(step, index=0, end=0.0, repeats=1, to_device=None, to_host=None)

    known = all(
        a is None or b is None or a == b for a, b in ((one.to_device, other.to_device), (one.to_host, other.to_host))
    )
    return known and key(one) == key(other)


def _entry(step: Step) -> dict[str, Any]:
    return {
        "first": step.index,
        "last": step.index + step.repeats - 1,
        "marked": step.marked,
        "end": round(step.end, 6),
        "location": brief(step.location),
        "executed": len(step.executions) * step.repeats,
        "compiled": sum(execution.compiled for execution in step.executions) * step.repeats,
        "cuts": sum(is_cut(step, execution) for execution in step.executions) * step.repeats,
        "executions": _executions(step.executions),
        "backwards": step.backwards,
        "optimizer_steps": len(step.optimizers),
        "to_device": step.to_device,
        "to_host": step.to_host,
        "fallbacks": dict(step.fallbacks),
    }


def is_cut(step: Step, execution: Execution) -> bool:
    """Whether the graph ran before its step mark because a value was read."""
    return step.marked and execution.cause == "read"


def _executions(executions: tuple[Execution, ...]) -> list[dict[str, Any]]:
    """Of one step; the same graph executed several times in a row from the same line is one entry with a count."""
    listed: list[dict[str, Any]] = []
    for execution in executions:
        entry = {
            "graph": execution.graph,
            "cause": execution.cause,
            "compiled": execution.compiled,
            "location": brief(execution.location),
        }
        if listed and all(listed[-1][key] == value for key, value in entry.items()):
            listed[-1]["count"] += 1
        elif len(listed) < MOST_EXECUTIONS:
            listed.append({**entry, "count": 1})
        else:
            break
    return listed


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    joined = {**one, "last": other["last"], "end": other["end"]}
    for key in ("executed", "compiled", "cuts"):
        joined[key] = one[key] + other[key]
    for key in ("to_device", "to_host"):
        joined[key] = other[key] if one[key] is None else one[key]
    return joined


def _bounded(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most MOST_ENTRIES: the first and the last ones as they are, those between summed up in one."""
    if len(entries) <= MOST_ENTRIES:
        return entries
    tail = MOST_ENTRIES // 5
    head = MOST_ENTRIES - tail - 1
    middle = entries[head:-tail]
    joined = middle[0]
    for entry in middle[1:]:
        joined = _joined(joined, entry)
    joined = {**joined, "executions": [], "to_device": None, "to_host": None, "fallbacks": {}, "summed": True}
    return [*entries[:head], joined, *entries[-tail:]]
