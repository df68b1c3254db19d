"""The rule about graphs that get larger and larger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xla_sim.rules.base import Rule
from xla_sim.rules.run.contexts import Ran, contexts, load
from xla_sim.trace import Finding, Trace

ENOUGH = 4  # graphs in a row, each larger than the last


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
            run = growth(trace, executions)
            if not run:
                continue
            (first, small), (last, large) = run[0], run[-1]
            goes_on = last is executions[-1]
            yield self.finding(
                f"the graph grew from {small} instructions at step {first.step.index} to {large} at step "
                f"{last.step.index}, a little at each step",
                "keep one running tensor instead of a growing list, and detach what is carried from step to step",
                last.execution.location,
                "warning" if goes_on else "info",  # a graph that gets small again is none that grows for ever
                steps=[item.step.index for item, _ in run],
                instructions=[size for _, size in run],
            )


def growth(trace: Trace, executions: Sequence[Ran]) -> list[tuple[Ran, int]]:
    """The longest run of steps whose graphs, each compiled anew, have more and more instructions; or nothing.

    The second graph may be larger than the first, since the optimizer has its state by then.
    """
    best: list[tuple[Ran, int]] = []
    run: list[tuple[Ran, int]] = []
    for item in executions[1:]:
        module = load(trace, item.execution.graph) if item.execution.compiled else None
        size = len(module.entry.instructions) if module else 0
        larger = bool(run) and size > run[-1][1] and item.step.index > run[-1][0].step.index
        run = [*run, (item, size)] if larger else [(item, size)] if size else []
        best = max(best, run, key=len)
    return best if len(best) >= ENOUGH else []
