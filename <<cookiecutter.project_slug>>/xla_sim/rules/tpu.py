"""Rules that judge the TPU compiler's results: refused, too large, crashed, padded, held twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xla_sim.rules.base import Rule
from xla_sim.trace import Finding, Location, Trace

MIB, GIB = 2**20, 2**30
PADDED = 3.0  # bytes in tiles over bytes of elements; convolutions with 64 channels have twice, and need no change
PADDED_BYTES = 16 * MIB  # and how many bytes that has to lose
LOST_BY_ONE = 0.1  # or the share of HBM that one tensor loses
SHARE_HELD_TWICE = 0.25  # of the arguments' bytes
NAMED = 5  # buffers in a message's evidence that are named with their lines


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
        for group in _grouped([one for one in results if one.status == "rejected" and not one.narrowed]):
            worst = group[0]
            words = worst.message.splitlines()[0] if worst.message else "no reason given"
            yield self.finding(
                f"the TPU compiler refuses the graph for {_chips(group)}: {words}",
                "replace the op or its dtype by one that the message allows, or run that part on the host outside of the step",
                worst.location,
                graphs=_hashes(group),
                chips=_topologies(group),
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
        for group in _grouped([one for one in results if one.status == "oom" and not one.narrowed]):
            worst = max(group, key=lambda one: one.hbm.total - one.hbm.capacity if one.hbm else 0)
            where = _blamed(worst)
            needs = [
                f"{one.hbm.total / GIB:.2f} GiB of HBM on {_chips([one])}, where a program can have {one.hbm.capacity / GIB:.2f} GiB"
                for one in _one_a_chip(group)
                if one.hbm
            ]
            largest = ", ".join(_in_words(buffer) for buffer in worst.buffers[:2])
            yield self.finding(
                f"the graph needs {', and '.join(needs)}" + (f"; the largest: {largest}" if largest else ""),
                "make the batch or the named tensors smaller, use bfloat16, donate or recompute, or shard them over more chips "
                "(python -m xla_sim fit)",
                where,
                graphs=_hashes(group),
                chips=_topologies(group),
                hbm={one.topology: vars(one.hbm) for one in group if one.hbm},
                buffers=[_as_evidence(buffer) for buffer in worst.buffers[:NAMED]],
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
        for group in _grouped(dead, by_message=False):
            first = group[0]
            verb = "gave no answer" if first.status == "timeout" else "died"
            lines = first.message.splitlines() or ["it left no word"]
            yield self.finding(
                f"the TPU compiler {verb} on graph {first.graph[:8]} for {_chips(group)}: {lines[0]}",
                f"repeat it with `{first.command}`; report it to https://github.com/openxla/xla/issues with {first.reproducer}",
                first.location,
                graphs=_hashes(group),
                chips=_topologies(group),
                reproducer=first.reproducer,
                command=first.command,
                words=first.message,
            )


class TilePadding(Rule):
    """Tiles make the tensors much larger than their elements."""

    code = "TPU504"
    name = "tile-padding"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        A TPU keeps tensors in tiles, of 8 by 128 elements for float32. What doesn't fill its tiles is padded, in memory and in
        time. The compiler chooses layouts so that little is lost; this is about what is lost all the same.

        **Why a TPU cares.** Padding takes HBM and bandwidth like data.

        **Bad**

        ```python
        gates = torch.sigmoid(logits.view(-1, 3, 3))    # 9 of 1024 elements of a tile, if the compiler finds no other layout
        ```

        **Good**

        ```python
        gates = torch.sigmoid(logits.view(-1, 9).t())   # the long dimension last
        ```

        **Source.** The layouts of the compiled program, such as `f32[65536,3]{1,0:T(8,128)}`, over the buffers that are alive
        when HBM is fullest; nothing is assumed about what the compiler pads.
        """
        return ()

    def check_compiled(self, results: Sequence[Any], trace: Any) -> Iterable[Finding]:
        padded = [one for one in results if one.padding and not one.narrowed and _wasteful(one)]
        for group in _grouped(padded, place=lambda one: one.padding.tensors[0].location):
            worst = max(group, key=lambda one: one.padding.padded - one.padding.logical)
            padding, first = worst.padding, worst.padding.tensors[0]
            yield self.finding(
                f"tiles make {padding.logical / MIB:.1f} MiB of elements {padding.padded / MIB:.1f} MiB on {_chips(group)} "
                f"({padding.padded / padding.logical:.1f} times); most is lost in {_in_words(first)}",
                "give the tensor a long last dimension: a multiple of 128, or merge its small dimensions",
                first.location,
                graphs=_hashes(group),
                chips=_topologies(group),
                logical=padding.logical,
                padded=padding.padded,
                tensors=[_as_evidence(tensor) for tensor in padding.tensors[:NAMED]],
            )


class NoDonation(Rule):
    """Parameters or optimizer state are held twice because their buffers aren't donated."""

    code = "TPU505"
    name = "no-donation"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        The step computes new values of tensors that it was given, and the compiler may not write them where the old ones are:
        old and new are in HBM at once. torch_xla donates what is updated in place.

        **Why a TPU cares.** Parameters and Adam's two moments are three quarters of a training step's arguments; held twice,
        half of the model fits.

        **Bad**

        ```python
        weights = [w - lr * g for w, g in zip(weights, grads)]    # new tensors: nothing tells that the old ones are done with
        ```

        **Good**

        ```python
        with torch.no_grad():
            for w, g in zip(weights, grads):
                w -= lr * g                                       # in place: torch_xla donates the old value's memory
        ```

        **Source.** The captured HLO (`buffer_donor`, `input_output_alias`), elementwise chains from an argument to an output of
        its shape, and the compiler's buffer assignment.
        """
        return ()

    def check_compiled(self, results: Sequence[Any], trace: Any) -> Iterable[Finding]:
        held = [
            one for one in results if not one.narrowed and len(one.held_twice) > 1 and _share(one) >= SHARE_HELD_TWICE
        ]
        for group in _grouped(held, place=lambda one: one.held_twice[0].location):
            worst = max(group, key=lambda one: sum(buffer.bytes for buffer in one.held_twice))
            largest = sorted(worst.held_twice, key=lambda buffer: -buffer.bytes)
            size = sum(buffer.bytes for buffer in largest)
            yield self.finding(
                f"{len(largest)} tensors that the step updates ({_size(size)} of its {_size(worst.hbm.arguments)} of arguments) are "
                f"held twice on {_chips(group)}: their buffers aren't donated",
                "update them in place (optimizer.step(), or w -= … under torch.no_grad()), and don't set XLA_ENABLE_PARAM_ALIASING=0",
                next((buffer.location for buffer in largest if buffer.location.line), Location()),
                graphs=_hashes(group),
                chips=_topologies(group),
                bytes=size,
                buffers=[_as_evidence(buffer) for buffer in largest[:NAMED]],
            )


def _grouped(results: Sequence[Any], by_message: bool = True, place: Any = None) -> list[list[Any]]:
    """Results that say the same: one finding for the chips and graphs that fail at one line or on one graph."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for one in results:
        location = place(one) if place else (_blamed(one) if one.status == "oom" else one.location)
        line = (location.file, location.line) if location.line and by_message else one.graph
        groups.setdefault((one.status, line), []).append(one)
    return list(groups.values())


def _blamed(result: Any) -> Location:
    """The line of the largest buffer that has one: temporaries first, a parameter's size is seldom the choice."""
    buffers = sorted(result.buffers, key=lambda buffer: (buffer.kind == "argument", -buffer.bytes))
    large = [one for one in buffers if one.location.line and 4 * one.bytes >= max(b.bytes for b in buffers)]
    found: Location = (large or [one for one in buffers if one.location.line] or [result])[0].location
    return found


def _one_a_chip(group: Sequence[Any]) -> list[Any]:
    """The graph that needs most, for each topology."""
    best: dict[str, Any] = {}
    for one in group:
        if one.topology not in best or (one.hbm and one.hbm.total > best[one.topology].hbm.total):
            best[one.topology] = one
    return list(best.values())


def _wasteful(result: Any) -> bool:
    padding = result.padding
    if not padding.tensors:
        return False
    lost = padding.padded - padding.logical
    worst = padding.tensors[0].padded - padding.tensors[0].logical
    much = bool(result.hbm) and worst >= LOST_BY_ONE * result.hbm.capacity
    return bool(much or (lost >= PADDED_BYTES and padding.padded >= PADDED * padding.logical))


def _share(result: Any) -> float:
    """Of the arguments' bytes, what is held twice."""
    if not result.hbm or not result.hbm.arguments:
        return 0.0
    held: float = sum(buffer.bytes for buffer in result.held_twice) / result.hbm.arguments
    return held


def _chips(group: Sequence[Any]) -> str:
    names = list(dict.fromkeys(one.chip if one.chips == 1 else one.topology for one in group))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _hashes(group: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(one.graph for one in group))


def _topologies(group: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(one.topology for one in group))


def _in_words(buffer: Any) -> str:
    where = f" ({buffer.location})" if buffer.location.line else ""
    held = (
        f"{_size(buffer.padded)} for {_size(buffer.logical)} of elements"
        if buffer.padded > buffer.logical
        else _size(buffer.padded)
    )
    return f"{buffer.shape.partition('{')[0]}, {held}{where}"


def _size(count: int) -> str:
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def _as_evidence(buffer: Any) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "kind": buffer.kind,
        "shape": buffer.shape,
        "logical": buffer.logical,
        "padded": buffer.padded,
        "op": buffer.op_name,
        "file": buffer.location.file,
        "line": buffer.location.line,
    }
