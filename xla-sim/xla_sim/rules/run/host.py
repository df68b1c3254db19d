"""Rules about what passes between the device and the host."""

from __future__ import annotations

import collections
import linecache
import statistics
from collections.abc import Iterable, Sequence

from xla_sim.rules.base import Rule, times
from xla_sim.trace import Fallback, Finding, Location, Step, Trace

# ops that must know values to know a shape or to branch: they read, wherever they run
DATA_DEPENDENT = frozenset(
    {
        "aten::nonzero",
        "aten::masked_select",
        "aten::equal",
        "aten::is_nonzero",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::repeat_interleave.Tensor",
        "aten::bincount",
    }
)
LARGE = 1 << 20  # bytes a step


def code_of(location: Location) -> str:
    """The source line, shortened."""
    linecache.checkcache()
    frame = next((f for f in location.frames if f.line == location.line and f.function == location.function), None)
    text = linecache.getline(frame.file if frame else location.file, location.line).strip()
    text = text or linecache.getline(location.file, location.line).strip()
    return text if len(text) <= 60 else text[:57] + "..."


class HostSync(Rule):
    """A value was read inside a step, so the graph was cut and the host waited."""

    code = "XLA201"
    name = "host-sync"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        `loss.item()`, `float(loss)`, `print(loss)`, `if loss > x`, `.cpu()` and boolean-mask indexing need a value now: what
        was recorded so far runs as a graph of its own, and the host waits for it. After the step mark the value is there
        already and reading it cuts nothing.

        **Why a TPU cares.** The chip idles while the host records the rest of the step, and the compiler can't fuse across
        the cut.

        **Bad**

        ```python
        running += loss.item()                              # in the middle of every step
        loss.backward()
        ```

        **Good**

        ```python
        loss.backward()
        optimizer.step()
        running += loss.detach()                            # stays on the device
        torch_xla.sync()
        if step % 100 == 0:
            print(running.item())                           # after the mark, now and then
        ```

        **Source.** torch_xla's record of executions that were caused by a read, with their Python frames.
        """
        explained = {_place(f.location) for f in trace.fallbacks if f.op not in DATA_DEPENDENT}
        for (file, line), steps in _reads(trace).items():
            if (file, line) in explained or (not line and any(_cut_by_others(step) for step in steps)):
                continue
            reads = [e for s in steps for e in s.executions if e.cause == "read" and _place(e.location) == (file, line)]
            location = reads[0].location
            if _in_closure(location) or not _every_step(trace, steps):
                continue
            ops = sorted({f.op for f in trace.fallbacks if _place(f.location) == (file, line)})
            needs = f" ({', '.join(ops)} has to know values)" if ops else ""
            code = code_of(location)
            yield self.finding(
                f"{'`' + code + '`' if code else 'this line'} reads a value inside the step{needs}, {times(len(reads))} in "
                f"{len(steps)} step{'s' * (len(steps) != 1)}: each cuts the graph and waits for the device",
                "avoid shapes that depend on values: multiply by the mask, or torch.where"
                if ops
                else "read it after torch_xla.sync(), every N steps, or in xm.add_step_closure",
                location,
                reads=len(reads),
                steps=[step.index for step in steps][:50],
                ops=ops,
            )


def _cut_by_others(step: Step) -> bool:
    """Whether an execution without a line is explained: by a fallback, or by dynamo, whose backward pass makes one."""
    return bool(step.fallbacks) or any(e.cause == "dynamo" for e in step.executions)


def _place(location: Location) -> tuple[str, int]:
    return location.file, location.line


def _in_closure(location: Location) -> bool:
    return any(frame.function in ("_run_step_closures", "run_step_closures") for frame in location.frames)


def _reads(trace: Trace) -> dict[tuple[str, int], list[Step]]:
    """Steps in which a line's read caused an execution, by line; only steps that a mark closed.

    What runs before the step's first module is called is a read after the mark: nothing is cut.
    """
    found: dict[tuple[str, int], list[Step]] = {}
    for step in trace.timeline:
        if step.marked:
            reads = (e for e in step.executions if e.cause == "read" and not e.early)
            for where in {_place(e.location): None for e in reads}:
                found.setdefault(where, []).append(step)
    return found


def _every_step(trace: Trace, steps: Sequence[Step]) -> bool:
    """Whether these are more than every second step of their kind in the span that they cover; now and then is fine."""
    if len(steps) < 2:
        return sum(step.marked and step.works for step in trace.timeline) == 1
    kinds = {(step.backwards > 0, bool(step.optimizers)) for step in steps}
    first, last = steps[0].index, steps[-1].index
    alike = [
        step
        for step in trace.timeline
        if first <= step.index <= last and (step.backwards > 0, bool(step.optimizers)) in kinds
    ]
    return sum(s.repeats for s in steps) * 2 > sum(s.repeats for s in alike) + 1


# torch_xla lowers these to a custom call that XLA has on a TPU alone (torch_xla/csrc/aten_xla_type.cpp, CheckTpuDevice)
LOWERED_ON_A_TPU = ("aten::upsample_bilinear2d_backward", "aten::upsample_nearest2d_backward")


class CpuFallback(Rule):
    """An op has no XLA lowering and ran on the host."""

    code = "XLA202"
    name = "cpu-fallback"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        torch_xla has no lowering for the op, so its inputs are copied to the host, PyTorch computes it there, and the result
        is copied back. The backward pass of `F.interpolate` in two dimensions is lowered on a TPU alone: it runs on the host
        in a simulation, which is told as info.

        **Why a TPU cares.** Two transfers and an idle chip for one op, at every call.

        **Bad**

        ```python
        columns = F.unfold(images, 3)                       # aten::im2col runs on the host
        ```

        **Good**

        ```python
        features = F.conv2d(images, weight)                 # the same computation with ops that XLA has
        ```

        **Source.** torch_xla's fallback counters (`aten::…` in its metrics report), looked at after each call of the first
        steps to find the line.
        """
        by_op: dict[str, list[Fallback]] = {}
        for fallback in trace.fallbacks:
            by_op.setdefault(fallback.op, []).append(fallback)
        for op, places in by_op.items():
            count = sum(place.count for place in places)
            steps = sum(step.repeats for step in trace.timeline if op in step.fallbacks)
            where = next((p for p in places if not _in_backward(p.location)), places[0]).location
            code = code_of(where)
            if op in LOWERED_ON_A_TPU and trace.stack.get("device") != "TPU":
                yield self.finding(
                    f"{op} ran on the host, {times(count)}, because torch_xla lowers it on a TPU alone",
                    "nothing to change: on a TPU it is part of the step's graph, and doesn't cut it as it does here",
                    where,
                    "info",
                    op=op,
                    calls=count,
                    steps=steps,
                )
                continue
            yield self.finding(
                f"{op} has no lowering in torch_xla {trace.stack.get('torch_xla', '')} and ran on the host, {times(count)} in "
                f"{steps} step{'s' * (steps != 1)}"
                + (f" (`{code}`)" if code else _whereabouts(trace, op) if not where.line else ""),
                "compute it with ops that XLA has, or move it out of the step (into the data pipeline)",
                where,
                "warning" if steps > 1 or trace.steps <= 1 else "info",
                op=op,
                calls=count,
                steps=steps,
                lines=[str(place.location) for place in places],
            )


def _whereabouts(trace: Trace, op: str) -> str:
    """The step marks between which an op ran whose own line wasn't watched."""
    marks = [str(step.location) for step in trace.timeline if op in step.fallbacks and step.location.line]
    return f" (its line is unknown; the step ends at {marks[0]})" if marks else " (its line is unknown)"


def _in_backward(location: Location) -> bool:
    """Whether it ran while gradients were computed: the line that called the op forward says more."""
    return any(
        f.function == "backward" and ("/torch/_tensor" in f.file or "/autograd/" in f.file) for f in location.frames
    )


class LargeTransfer(Rule):
    """A step moves more between host and device than it should."""

    code = "XLA203"
    name = "large-transfer"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        A step needs its batch on the device and, now and then, a number back. More than 1 MiB read back at every step, or
        the same large tensor sent again at every step, is time in which the chip waits.

        **Why a TPU cares.** The host link is a hundred times slower than HBM.

        **Bad**

        ```python
        table = torch.randn(4096, 4096)
        for x, y in loader:
            loss = step(x.to(device), table.to(device))     # 64 MiB, the same at every step
            history.append(logits.cpu())                    # the whole output, at every step
        ```

        **Good**

        ```python
        table = torch.randn(4096, 4096).to(device)          # once
        correct += (logits.argmax(-1) == y).sum()           # a number, on the device
        ```

        **Source.** torch_xla's metrics InboundData and OutboundData (bytes) between step marks, and the identity of the host
        tensors that were sent.
        """
        yield from self._again(trace)
        measured = [step for step in trace.timeline if step.marked and step.to_host is not None][trace.warmup_steps :]
        got = [step.to_host for step in measured if step.to_host is not None]
        if len(got) < 3 or statistics.median(got) < LARGE:
            return
        if any(step.fallbacks for step in measured):
            return  # cpu-fallback says what to do about that traffic
        median = int(statistics.median(got))
        reads = collections.Counter(e.location for step in measured for e in step.executions if e.cause == "read")
        seen = trace.facts_named("download")
        where = seen[0].location if seen else reads.most_common(1)[0][0] if reads else measured[0].location
        yield self.finding(
            f"every step reads {_size(median)} back from the device (median of {len(got)} steps)",
            "reduce on the device and read the result, or read every N steps",
            where,
            bytes_per_step=median,
            steps=len(got),
        )

    def _again(self, trace: Trace) -> Iterable[Finding]:
        for fact in trace.facts_named("upload"):
            size, steps, watched = (int(fact.values[key]) for key in ("bytes", "steps", "of"))
            if size < LARGE or steps < 3 or steps * 2 < watched:
                continue
            yield self.finding(
                f"the same tensor of {_size(size)} was sent to the device at {steps} of {watched} steps in a row",
                "move it to the device once, before the loop",
                fact.location,
                bytes=size,
                shape=fact.values["shape"],
                steps=steps,
            )


def _size(count: int) -> str:
    """Bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.4g} {unit}"
