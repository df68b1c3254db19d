"""Rules about graphs that are compiled more often than they should be."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xla_sim import hlo
from xla_sim.difference import Difference, difference, nearest
from xla_sim.rules.base import Rule
from xla_sim.trace import Execution, Finding, Step, Trace

# one line of the program in one kind of step: (frames, backward passes, optimizers)
Context = tuple[object, int, tuple[int, ...]]
SHOWN = 20  # differences in the evidence


@dataclass(frozen=True)
class _Compilation:
    step: Step
    execution: Execution
    occurrence: int  # which time this context runs, from 1
    earlier: tuple[str, ...]  # graphs that ran in this context before


def contexts(trace: Trace) -> dict[Context, list[_Compilation]]:
    """Every execution, by the place that caused it and the kind of step it belongs to.

    Training and evaluation that share a line differ in backward passes and optimizers, so each has its own warm-up, and
    so does each part of an accumulated gradient.
    """
    found: dict[Context, list[_Compilation]] = {}
    ran: dict[Context, dict[str, None]] = collections.defaultdict(dict)
    occurrences: dict[Context, int] = collections.Counter()
    for step in trace.timeline:
        here = set()
        for execution in step.executions:
            context = (execution.location.frames, step.backwards, step.optimizers)
            if context not in here:
                here.add(context)
                occurrences[context] += 1
            found.setdefault(context, []).append(
                _Compilation(step, execution, occurrences[context], tuple(ran[context]))
            )
            ran[context][execution.graph] = None
    return found


def load(trace: Trace, hash: str) -> hlo.Module | None:
    """The graph of that hash, when it was kept."""
    graph = trace.graph(hash)
    if graph is None or not graph.hlo or not (trace.directory / graph.hlo).exists():
        return None
    return hlo.load(trace.directory / graph.hlo)


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
            late = [(c, d) for c, d in self._late(trace, executions)]
            for severity, group in _grouped(late):
                yield self._finding(executions, group, severity)

    def _late(self, trace: Trace, executions: list[_Compilation]) -> Iterator[tuple[_Compilation, Difference]]:
        """Compilations with an earlier graph in the same context: after warm-up, or because an input changed shape."""
        for item in executions:
            if not item.execution.compiled or not item.earlier:
                continue
            change = _change(trace, item)
            if item.occurrence > trace.warmup_steps or change.kind in ("shape", "dtype"):
                yield item, change

    def _finding(
        self, executions: list[_Compilation], late: Sequence[tuple[_Compilation, Difference]], severity: str
    ) -> Finding:
        first, change = late[0]
        ran = len({item.step.index for item in executions})
        once = f"compiled again at step {first.step.index}: {change.summary}"
        often = f"compiled again {len(late)} times in {ran} steps, first at step {first.step.index}: {change.summary}"
        return self.finding(
            once if len(late) == 1 else often,
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
    "ops": "make every step do the same ops: replace Python branches on the step or on values by torch.where",
    "inputs": "make every step use the same tensors",
    "outputs": "keep the same tensors alive at every step mark: don't collect results in a list across steps",
    "nothing": "compare the two graphs in the report",
}


def _change(trace: Trace, item: _Compilation) -> Difference:
    new = load(trace, item.execution.graph)
    earlier = [module for hash in item.earlier for module in [load(trace, hash)] if module is not None]
    old = nearest(new, earlier) if new is not None else None
    if new is None or old is None:
        return Difference("nothing", "the graph was not kept, so what changed isn't known")
    return difference(old, new)


def _grouped(
    late: Sequence[tuple[_Compilation, Difference]],
) -> Iterator[tuple[str, list[tuple[_Compilation, Difference]]]]:
    """One group for inputs that change, one for everything else; a single other change is only worth a mention."""
    moving = [pair for pair in late if pair[1].kind in ("shape", "dtype")]
    other = [pair for pair in late if pair[1].kind not in ("shape", "dtype")]
    if moving:
        yield "warning", moving + other
    elif other:
        yield ("warning" if len(other) > 1 else "info"), other


class GrowingGraph(Rule):
    """The graph gets larger step by step."""

    code = "XLA104"
    name = "growing-graph"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        Each step's graph contains the one before and a little more: something made in one step is used again, unfinished
        or as one more tensor, in the next, so tracing, compiling and running take longer and longer.

        **Why a TPU cares.** Every graph is new, so every step compiles, and each compilation takes longer than the last.

        **Bad**

        ```python
        losses.append(loss)
        mean = torch.stack(losses).mean()                   # one more input at each step
        ```

        **Good**

        ```python
        total += loss.detach()                              # one tensor, the same graph at each step
        ```

        **Source.** The instructions of each step's HLO, as captured.
        """
        for executions in contexts(trace).values():
            sizes: list[tuple[_Compilation, int]] = []
            for item in executions:
                module = load(trace, item.execution.graph) if item.execution.compiled else None
                if module is not None:
                    sizes.append((item, len(module.entry.instructions)))
            run = _longest_growth(sizes[1:])  # the second graph may be larger than the first: optimizer state
            if len(run) >= 4:
                (first, small), (last, large) = run[0], run[-1]
                yield self.finding(
                    f"the graph grew from {small} instructions at step {first.step.index} to {large} at step "
                    f"{last.step.index}, a little at each step",
                    "keep one running tensor instead of a growing list, and detach what is carried from step to step",
                    last.execution.location,
                    steps=[item.step.index for item, _ in run],
                    instructions=[size for _, size in run],
                )


def _longest_growth(sizes: Sequence[tuple[_Compilation, int]]) -> list[tuple[_Compilation, int]]:
    best: list[tuple[_Compilation, int]] = []
    run: list[tuple[_Compilation, int]] = []
    for item in sizes:
        run = [*run, item] if run and item[1] > run[-1][1] else [item]
        best = max(best, run, key=len)
    return best
