"""Rules on the TPU compiler's verdict: refused, too large, crashed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xla_sim.rules.base import Rule
from xla_sim.rules.chip.compiled import GIB, NAMED, as_evidence, blamed, chips, grouped, hashes, in_words, topologies
from xla_sim.trace import Finding, Trace


class CompileRejected(Rule):
    """The TPU compiler refused the graph."""

    code = "TPU501"
    name = "compile-rejected"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        The graph was handed to the TPU compiler in libtpu, and it answered with an error that isn't about memory.

        **Why a TPU cares.** The program would stop at its first step there, with the same words.

        **Bad**

        ```python
        spectrum = torch.fft.fft(x.to(torch.complex128))    # Unexpected operand type for FFT: c128
        ```

        **Good**

        ```python
        spectrum = torch.fft.fft(x.to(torch.complex64))
        ```

        **Source.** The compiler's own message. The line is that of the instruction it names, or of the op and the shape it
        quotes.
        """
        return ()

    def check_compiled(self, results: Sequence[Any], trace: Any) -> Iterable[Finding]:
        for group in grouped([one for one in results if one.status == "rejected" and not one.narrowed]):
            worst = group[0]
            words = worst.message.splitlines()[0] if worst.message else "no reason given"
            yield self.finding(
                f"the TPU compiler refuses the graph for {chips(group)}: {words}",
                "replace the op or its dtype by one that the message allows, or run that part on the host outside of the step",
                worst.location,
                graphs=hashes(group),
                chips=topologies(group),
                words=worst.message,
            )


class HbmOverflow(Rule):
    """The graph needs more HBM than the chip has."""

    code = "TPU502"
    name = "hbm-overflow"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        Arguments, outputs and temporaries of the compiled graph, as the compiler lays them out in tiles, take more than a
        program can have on that chip. The largest buffers are in the evidence, with their lines.

        **Why a TPU cares.** The program would stop at its first step with RESOURCE_EXHAUSTED.

        **Bad**

        ```python
        scores = torch.softmax(q @ k.transpose(-2, -1), -1)    # batch x heads x tokens x tokens, all at once
        ```

        **Good**

        ```python
        with torch.autocast("xla", dtype=torch.bfloat16):      # half of it; or a smaller batch, or fewer tokens at a time
            scores = torch.softmax(q @ k.transpose(-2, -1), -1)
        ```

        **Source.** The compiler's buffer assignment and its own limit, which leaves out what the runtime reserves.
        """
        return ()

    def check_compiled(self, results: Sequence[Any], trace: Any) -> Iterable[Finding]:
        for group in grouped([one for one in results if one.status == "oom" and not one.narrowed]):
            worst = max(group, key=lambda one: one.hbm.total - one.hbm.capacity if one.hbm else 0)
            where = blamed(worst)
            needs = [
                f"{one.hbm.total / GIB:.2f} GiB of HBM on {chips([one])}, where a program can have {one.hbm.capacity / GIB:.2f} GiB"
                for one in _one_a_chip(group)
                if one.hbm
            ]
            largest = ", ".join(in_words(buffer) for buffer in worst.buffers[:2])
            yield self.finding(
                f"the graph needs {', and '.join(needs)}" + (f"; the largest: {largest}" if largest else ""),
                "make the batch or the named tensors smaller, use bfloat16, donate or recompute, or shard them over more chips "
                "(python -m xla_sim fit)",
                where,
                graphs=hashes(group),
                chips=topologies(group),
                hbm={one.topology: vars(one.hbm) for one in group if one.hbm},
                buffers=[as_evidence(buffer) for buffer in worst.buffers[:NAMED]],
                words=worst.message.splitlines()[0] if worst.message else "",
            )


class CompilerCrash(Rule):
    """The TPU compiler died on the graph, or never answered."""

    code = "TPU503"
    name = "compiler-crash"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        The process that compiled the graph was killed by a signal, took more time or memory than it was allowed, or ended
        without an answer. That is a bug of the compiler or a graph far too large, and the rest of the report stands.

        **Why a TPU cares.** The same compiler runs on the TPU VM, and takes the training program with it.

        **Bad**

        ```python
        u, s, v = torch.linalg.svd(weight)       # some SVDs end libtpu 0.0.42.1 with SIGABRT
        ```

        **Good**

        ```python
        u, s, v = torch.linalg.svd(weight.cpu())    # on the host, outside of the step, every N steps
        ```

        **Source.** How the process ended, and the last lines it wrote. The graph is kept as a reproducer with the command
        that repeats it.
        """
        return ()

    def check_compiled(self, results: Sequence[Any], trace: Any) -> Iterable[Finding]:
        dead = [one for one in results if one.status in ("crashed", "timeout") and not one.narrowed]
        for group in grouped(dead, by_message=False):
            first = group[0]
            verb = {"timeout": "gave no answer", "memory": "was stopped"}.get(first.limit, "died")
            more = f" and a larger --{first.limit}" if first.limit else ""
            lines = first.message.splitlines() or ["it left no word"]
            yield self.finding(
                f"the TPU compiler {verb} on graph {first.graph[:8]} for {chips(group)}: {lines[0]}",
                f"repeat it with `{first.command}`{more}; report it to https://github.com/openxla/xla/issues with {first.reproducer}"
                + (", should no limit be enough" if more else ""),
                first.location,
                graphs=hashes(group),
                chips=topologies(group),
                reproducer=first.reproducer,
                command=first.command,
                words=first.message,
            )


def _one_a_chip(group: Sequence[Any]) -> list[Any]:
    """The graph that needs most, for each topology."""
    best: dict[str, Any] = {}
    for one in group:
        if one.topology not in best or (one.hbm and one.hbm.total > best[one.topology].hbm.total):
            best[one.topology] = one
    return list(best.values())
