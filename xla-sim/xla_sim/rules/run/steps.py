"""Rules about the step mark: whether work is ever sent to the device, and in portions of one step."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from xla_sim.rules.base import Rule, times
from xla_sim.trace import Execution, Finding, Location, Step, Trace

UNROLLED = 4  # optimizer steps of one mark that can't be meant
EVALUATIONS = 3  # forward passes, or reads, without a step mark that make an evaluation loop


class MissingStep(Rule):
    """Work piles up with no step mark, and runs only because a value was read."""

    code = "XLA102"
    name = "missing-step"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        torch_xla records ops and runs nothing until a step mark (`torch_xla.sync()`), or until a value is read. Without a
        mark the graph of many steps piles up and is compiled as one.

        **Why a TPU cares.** The graph of a whole epoch takes minutes to compile, doesn't fit in HBM, and is new whenever
        the number of steps in it is.

        **Bad**

        ```python
        for x, y in loader:
            loss = step(x, y)
        print(loss.item())                                  # everything runs here
        ```

        **Good**

        ```python
        for x, y in loader:
            loss = step(x, y)
            torch_xla.sync()
        print(loss.item())
        ```

        **Source.** torch_xla's record of executions and their causes, and the optimizer steps between two of them.
        """
        if not trace.executions and not any(optimizer.device == "xla" for optimizer in trace.optimizers):
            return  # nothing was ever meant for the device: never-on-xla says so
        elsewhere = {optimizer.id for optimizer in trace.optimizers if optimizer.device not in ("", "xla")}
        trained = [(step, _turns(step, elsewhere)) for step in trace.timeline]
        marked = any(step.marked for step, turns in trained if turns)
        for step, turns in trained:
            if max(turns, default=0) < 2 or (_by_loader(step) and max(turns) < UNROLLED):
                continue
            reads = [execution for execution in step.executions if execution.cause == "read"]
            # marked at last, but every one of them ran because of a read
            if not step.marked or not marked or len(reads) >= max(turns):
                yield self._training(step, max(turns), reads)
                return
        yield from self._unrolled([(step, turns) for step, turns in trained if turns])
        yield from self._evaluation(trace)

    def _training(self, step: Step, trained: int, reads: list[Execution]) -> Finding:
        ending = f"they ran only because a value was read ({times(len(reads))})" if reads else "none of it ever ran"
        opt = next((f.location for f in step.forwards if f.grad), Location())
        return self.finding(
            f"{trained} optimizer steps went by without a step mark; {ending}",
            "call torch_xla.sync() once at the end of every training step",
            reads[0].location if reads else opt,
            optimizer_steps=trained,
            reads=len(reads),
            executions=len(step.executions),
        )

    def _unrolled(self, trained: list[tuple[Step, list[int]]]) -> Iterable[Finding]:
        """Every mark comes only after many steps of every optimizer, such as one at the end of an epoch.

        Two or three may be meant, an optimizer that steps once a round (GAN) shows that the round is, and a loader that
        was told so (batches_per_execution) marks as it was told.
        """
        if not trained or any(min(turns) < UNROLLED for _, turns in trained):
            return
        step, turns = trained[0]
        if _by_loader(step):
            return
        yield self.finding(
            f"every step mark comes after {max(turns)} optimizer steps: they are one graph",
            "call torch_xla.sync() once at the end of every training step, inside the loop over batches",
            step.location,
            optimizer_steps=max(turns),
            marks=len(trained),
        )

    def _evaluation(self, trace: Trace) -> Iterable[Finding]:
        """Forward passes without gradients that no mark separates."""
        passes = {
            step.index: sum(f.count for f in step.forwards if not f.grad or not f.training) for step in trace.timeline
        }
        for step in trace.timeline:
            count = passes[step.index]
            reads = [execution for execution in step.executions if execution.cause == "read"]
            if count < EVALUATIONS or not reads or self._meant(trace, step, passes):
                continue
            yield self.finding(
                f"{count} evaluation batches went by without a step mark; they ran only because a value was read "
                f"({times(len(reads))})",
                "call torch_xla.sync() after every evaluation batch, and read the totals after the loop",
                _most_frequent(reads),
                batches=count,
                reads=len(reads),
                step=step.index,
            )
            return

    def _meant(self, trace: Trace, step: Step, passes: dict[int, int]) -> bool:
        """Whether that many passes are what one step does: a teacher that sees several views, an ensemble."""
        if not step.marked:
            return False
        alike = [passes[s.index] for s in trace.timeline if s.marked and s.works and s.trains == step.trains]
        return sum(count >= EVALUATIONS for count in alike) * 2 > max(len(alike), 4)


def _by_loader(step: Step) -> bool:
    """Whether a parallel loader marked the step: after as many batches as it was told."""
    return any("parallel_loader" in frame.file for frame in step.location.frames)


def _turns(step: Step, elsewhere: set[int]) -> list[int]:
    """How often each optimizer on the device stepped."""
    return list(collections.Counter(o for o in step.optimizers if o not in elsewhere).values())


def _most_frequent(executions: list[Execution]) -> Location:
    return collections.Counter(execution.location for execution in executions).most_common(1)[0][0]


class NeverOnXla(Rule):
    """No graph was ever executed on an XLA device."""

    code = "XLA103"
    name = "never-on-xla"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        The program ran to its end and torch_xla executed nothing: the model and the data stayed on another device.

        **Why a TPU cares.** The chip idles while the host does all the work.

        **Bad**

        ```python
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        ```

        **Good**

        ```python
        device = torch_xla.device()
        ```

        **Source.** torch_xla's record of executions: there is none.
        """
        if trace.executions or trace.exit != 0:
            return
        trained = [optimizer for optimizer in trace.optimizers if optimizer.steps]
        where = trained[0].stepped if trained else Location()
        done = f"{sum(o.steps for o in trained)} optimizer steps ran elsewhere" if trained else "the program ended"
        yield self.finding(
            f"{done} and no graph was executed on an XLA device",
            "move the model and every batch to torch_xla.device(), and end each step with torch_xla.sync()",
            where,
            optimizer_steps=sum(optimizer.steps for optimizer in trained),
            torch_xla_imported="torch_xla" in trace.stack,
        )
