"""The timeline of the report document: steps that are alike are one entry, so 1000 steps stay small."""

from __future__ import annotations

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
        entry = entries[-1] if entries else None
        if last is not None and entry is not None and entry["last"] == step.index - 1 and _alike(last, step, entry):
            _join(entry, step)
        else:
            entries.append(_entry(step))
        last = step
    return _bounded(entries)


def _alike(one: Step, other: Step, entry: dict[str, Any]) -> bool:
    """Whether a step did the same as the last one of the entry, apart from bytes that weren't measured at every step."""
    if one.executions != other.executions or one.fallbacks != other.fallbacks:
        return False
    moved = ((entry["to_device"], other.to_device), (entry["to_host"], other.to_host))
    return (
        all(a is None or b is None or a == b for a, b in moved)
        and (one.marked, one.backwards, one.optimizers) == (other.marked, other.backwards, other.optimizers)
        and (one.location, one.forwards) == (other.location, other.forwards)
    )


def _join(entry: dict[str, Any], step: Step) -> None:
    """Take one more step, alike the last one, into the entry."""
    entry.update(last=step.index + step.repeats - 1, end=round(step.end, 6))
    entry["executed"] += len(step.executions) * step.repeats
    entry["compiled"] += sum(execution.compiled for execution in step.executions) * step.repeats
    entry["cuts"] += sum(is_cut(step, execution) for execution in step.executions) * step.repeats
    if entry["to_device"] is None:
        entry["to_device"] = step.to_device
    if entry["to_host"] is None:
        entry["to_host"] = step.to_host


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


def _bounded(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most MOST_ENTRIES: the first and the last ones as they are, those between summed up in one."""
    if len(entries) <= MOST_ENTRIES:
        return entries
    tail = MOST_ENTRIES // 5
    head = MOST_ENTRIES - tail - 1
    middle = entries[head:-tail]
    summed = {
        **middle[0],
        "last": middle[-1]["last"],
        "end": middle[-1]["end"],
        **{key: sum(entry[key] for entry in middle) for key in ("executed", "compiled", "cuts")},
        "executions": [],
        "to_device": None,
        "to_host": None,
        "fallbacks": {},
        "summed": True,
    }
    return [*entries[:head], summed, *entries[-tail:]]
