"""Rules about the step mark: whether work is ever sent to the device, and in portions of one step."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from xla_sim.rules.base import Rule
from xla_sim.trace import Execution, Finding, Location, Step, Trace

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
        marked = any(step.marked for step in trace.timeline if step.trains)
        for step in trace.timeline:
            repeated = collections.Counter(step.optimizers)
            trained = max(repeated.values(), default=0)
            if trained > 1 and (not step.marked or not marked):
                yield self._training(step, trained)
                return
            if trained > 1 and any(execution.cause == "read" for execution in step.executions):
                reads = [e for e in step.executions if e.cause == "read"]
                if len(reads) >= trained:  # marked at last, but every one of them ran because of a read
                    yield self._training(step, trained)
                    return
        yield from self._evaluation(trace)

    def _training(self, step: Step, trained: int) -> Finding:
        reads = [execution for execution in step.executions if execution.cause == "read"]
        ending = f"they ran only because a value was read ({len(reads)} times)" if reads else "none of it ever ran"
        opt = next((f.location for f in step.forwards if f.grad), Location())
        return self.finding(
            f"{trained} optimizer steps went by without a step mark; {ending}",
            "call torch_xla.sync() once at the end of every training step",
            reads[0].location if reads else opt,
            optimizer_steps=trained,
            reads=len(reads),
            executions=len(step.executions),
        )

    def _evaluation(self, trace: Trace) -> Iterable[Finding]:
        """Forward passes without gradients that no mark separates."""
        for step in trace.timeline:
            passes = sum(f.count for f in step.forwards if not f.grad or not f.training)
            reads = [execution for execution in step.executions if execution.cause == "read"]
            if passes < EVALUATIONS or not reads:
                continue
            line = _most_frequent(reads)
            yield self.finding(
                f"{passes} evaluation batches went by without a step mark; they ran only because a value was read "
                f"({len(reads)} times)",
                "call torch_xla.sync() after every evaluation batch, and read the totals after the loop",
                line,
                batches=passes,
                reads=len(reads),
                step=step.index,
            )
            return


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
