"""Executions that belong together: one line of the program in one kind of step."""

from __future__ import annotations

import collections
from dataclasses import dataclass

from xla_sim.hlo import module as hlo
from xla_sim.ownership import is_torch_file
from xla_sim.trace import Execution, Location, Step, Trace

# the user's frames, backward passes and optimizers of the step, and the places that read values in it
Context = tuple[tuple[object, ...], int, tuple[int, ...], frozenset[object]]


@dataclass(frozen=True)
class Ran:
    """One execution, and what ran before it in its context."""

    step: Step
    execution: Execution
    occurrence: int  # which step with this context it is, from 1
    earlier: tuple[str, ...]  # graphs that ran in this context before

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """What the first module of the step was called with."""
        return self.step.forwards[0].shapes if self.step.forwards else ()


def contexts(trace: Trace) -> dict[Context, list[Ran]]:
    """Every execution, by the place that caused it and the kind of step it belongs to.

    Training and evaluation that share a line differ in backward passes and optimizers, so each has its own warm-up; so
    does each part of an accumulated gradient, and a step that is cut because its loss is printed now and then.
    """
    found: dict[Context, list[Ran]] = {}
    ran: dict[Context, dict[str, None]] = collections.defaultdict(dict)
    occurrences: dict[Context, int] = collections.Counter()
    for step in trace.timeline:
        here = set()
        reads = frozenset(place(e.location) for e in step.executions if e.cause == "read")
        for execution in step.executions:
            context = (place(execution.location), step.backwards, step.optimizers, reads)
            if context not in here:
                here.add(context)
                occurrences[context] += 1
            found.setdefault(context, []).append(Ran(step, execution, occurrences[context], tuple(ran[context])))
            ran[context][execution.graph] = None
    return found


def place(location: Location) -> tuple[object, ...]:
    """The frames outside of torch: those inside differ while single ops are watched."""
    return tuple((f.file, f.line) for f in location.frames if not is_torch_file(f.file)) or (location.line,)


def load(trace: Trace, hash: str) -> hlo.Module | None:
    """The graph of that hash, when it was kept."""
    graph = trace.graph(hash)
    if graph is None or not graph.hlo or not (trace.directory / graph.hlo).exists():
        return None
    return hlo.load(trace.directory / graph.hlo)
