"""The rule about graphs that are compiled more often than they should be."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence

from xla_sim.hlo.difference import Difference, difference, nearest
from xla_sim.rules.base import Rule, times
from xla_sim.rules.run.contexts import Ran, contexts, load
from xla_sim.rules.run.growth import growth
from xla_sim.trace import Finding, Trace

SHOWN = 20  # differences in the evidence
FEW = 8  # graphs that are still a few: buckets of lengths, tasks that take turns
MOVING = ("shape", "dtype")  # kinds of difference that come with the data

Late = Sequence[tuple[Ran, Difference]]


class GraphRecompile(Rule):
    """A graph was compiled after warm-up."""

    code = "XLA101"
    name = "graph-recompile"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        XLA compiles a graph for its exact shapes, dtypes and constants. The first step compiles, and so does the second,
        once the optimizer has its state; every compilation after that means that something changed from step to step.

        **Why a TPU cares.** A compilation takes seconds to minutes on a TPU host while all chips wait; a run that compiles
        at every step never trains.

        **Bad**

        ```python
        loader = DataLoader(data, batch_size=64)            # keeps a last batch of 24
        tokens = tokens[:, : lengths.max()]                 # another length at each step
        loss = loss * (0.5 if step > 100 else 1.0)          # a Python number baked into the graph
        ```

        **Good**

        ```python
        loader = DataLoader(data, batch_size=64, drop_last=True)
        tokens = pad(tokens, multiple_of=128)               # a few lengths, each compiled once
        scale.fill_(0.5 if step > 100 else 1.0)             # a tensor: its value is no part of the graph
        ```

        **Source.** torch_xla's record of compilations (`PT_XLA_DEBUG_LEVEL=2`) and the difference between the HLO of the
        graph and of its nearest earlier relative.
        """
        for executions in contexts(trace).values():
            late = list(self._late(trace, executions))
            for severity, group, bounded in _grouped(trace, executions, late):
                yield self._finding(executions, group, severity, bounded)

    def _late(self, trace: Trace, executions: list[Ran]) -> Iterator[tuple[Ran, Difference]]:
        """Compilations with an earlier graph in the same context: after warm-up, or because an input changed shape.

        A line that runs several times a step (a value read of each parameter) has a graph for each; they come again.
        """
        parts = collections.Counter(item.step.index for item in executions)
        final = {item.execution.graph: item.step.index for item in executions}
        for item in executions:
            if not item.execution.compiled or not item.earlier:
                continue
            part = parts[item.step.index] > 1 and final[item.execution.graph] > item.step.index
            if part and item.occurrence <= trace.warmup_steps:
                continue
            change = _change(trace, item)
            if item.occurrence > trace.warmup_steps or change.kind in MOVING:
                yield item, change

    def _finding(self, executions: list[Ran], late: Late, severity: str, bounded: bool) -> Finding:
        first, change = late[0]
        ran = len({item.step.index for item in executions})
        once = f"compiled again at step {first.step.index}: {change.summary}"
        often = f"compiled again {times(len(late))} in {ran} steps, first at step {first.step.index}: {change.summary}"
        used = "; each of these graphs is used again, so there are only a few" if bounded else ""
        return self.finding(
            (once if len(late) == 1 else often) + used,
            _FIXES[change.kind],
            first.execution.location,
            severity,
            compilations=len(late),
            steps=ran,
            kind=change.kind,
            differences=[
                {"step": item.step.index, "graph": item.execution.graph, "kind": d.kind, "summary": d.summary,
                 "details": list(d.details[:SHOWN])}
                for item, d in late[:SHOWN]
            ],
        )  # fmt: skip


_FIXES = {
    "shape": "give every step the same shapes: drop or pad the last batch (drop_last=True), pad to a few fixed lengths",
    "dtype": "convert the input to one dtype before it reaches the device",
    "constant": "put the number that changes into a tensor, so that it is data and no part of the graph",
    "bounds": "index with a tensor (index_select, masks, torch.where) instead of Python numbers that change",
    "scalars": "put numbers that change from step to step into a tensor; a few graphs more are no harm",
    "ops": "make every step do the same ops: replace Python branches on the step or on values by torch.where",
    "inputs": "make every step use the same tensors",
    "outputs": "keep the same tensors alive at every step mark: don't collect results in a list across steps",
    "nothing": "compare the two graphs in the report",
}


def _change(trace: Trace, item: Ran) -> Difference:
    new = load(trace, item.execution.graph)
    earlier = [module for hash in item.earlier for module in [load(trace, hash)] if module is not None]
    old = nearest(new, earlier) if new is not None else None
    if new is None or old is None:
        return Difference("nothing", "the graph was not kept, so what changed isn't known")
    return difference(old, new)


def _grouped(trace: Trace, executions: Sequence[Ran], late: Late) -> Iterator[tuple[str, Late, bool]]:
    """Findings to make: severity, compilations, and whether they are bounded. Inputs that change come first.

    A compilation or two that the program needs once (a phase begins, a schedule reaches zero) is only worth a mention.
    """
    moving = [pair for pair in late if pair[1].kind in MOVING]
    other = [pair for pair in late if pair[1].kind not in MOVING]
    grown = {item.step.index for item, _ in growth(trace, executions)}
    growing = sum(item.step.index in grown for item, _ in late)
    if executions[-1].step.index in grown and growing * 2 > len(late):
        yield "info", late, False  # growing-graph says it
    elif moving and not (_bounded(executions) and all(change.kind == "shape" for _, change in moving)):
        yield ("info" if _ragged_evaluation(executions) else "warning"), late, False
    else:
        if moving:
            yield "info", moving, True
        if other:
            yield ("warning" if _goes_on(executions, other) else "info"), other, False


def _goes_on(executions: Sequence[Ran], late: Late) -> bool:
    """Whether compilations keep coming, as far as the run can tell."""
    if _one_phase(executions, late):
        return False
    steps = executions[-1].occurrence
    often = len(late) * 4 >= steps
    if all(change.kind == "scalars" for _, change in late):
        return len(late) > 3 and often
    return len(late) > 2 and (often or late[-1][0].occurrence * 3 > steps * 2)


def _one_phase(executions: Sequence[Ran], late: Late) -> bool:
    """Whether something began once (averaged weights, a second loss), compiled for up to three steps, and then didn't."""
    first, last = late[0][0], late[-1][0]
    consecutive = last.occurrence - first.occurrence < min(len(late), 3)
    steady = first.occurrence > 3 and executions[-1].occurrence > last.occurrence
    return consecutive and steady and executions[-1].execution.graph == last.execution.graph


def _bounded(executions: Sequence[Ran]) -> bool:
    """Whether a few graphs serve all steps: buckets of lengths, tasks that take turns, or stages of some steps each.

    Shapes that depend on values aren't bounded, and neither is a batch that is now and then smaller than the others.
    """
    order = [item.execution.graph for item in executions]
    counts = {graph: order.count(graph) for graph in order}
    if not 1 < len(counts) <= min(FEW, len(order) // 2):
        return False
    if any(e.cause == "read" for item in executions for e in item.step.executions) or any(
        item.step.fallbacks for item in executions
    ):
        return False
    if _ragged(executions) and min(counts.values()) * 5 < len(order) * 2:
        return False
    changes = [b for a, b in zip(order, order[1:]) if a != b]
    returns = len(changes) >= len(counts)
    return returns or (len(counts) <= 4 and min(counts.values()) >= 4)


def _ragged(executions: Sequence[Ran]) -> bool:
    """Whether the batches differ in their first dimension and in nothing else."""
    kinds = {item.shapes for item in executions if item.shapes}
    rests = {tuple(shape[1:] for shape in shapes) for shapes in kinds}
    return len(kinds) > 1 and len(rests) == 1


def _ragged_evaluation(executions: Sequence[Ran]) -> bool:
    """A last batch that is smaller, where nothing is trained: one graph more, once."""
    kinds = {item.shapes for item in executions}
    return len(kinds) == 2 and _ragged(executions) and not any(item.step.trains for item in executions)
