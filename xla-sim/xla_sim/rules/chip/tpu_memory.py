"""Rules on how the TPU compiler lays a program out that it accepts: padded, held twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xla_sim.rules.base import Rule
from xla_sim.rules.chip.compiled import (
    MIB,
    NAMED,
    as_evidence,
    chips,
    grouped,
    hashes,
    in_words,
    size_in_words,
    topologies,
)
from xla_sim.trace import Finding, Location, Trace

PADDED = 3.0  # bytes in tiles over bytes of elements; convolutions with 64 channels have twice, and need no change
PADDED_BYTES = 16 * MIB  # and how many bytes that has to lose
LOST_BY_ONE = 0.1  # or the share of HBM that one tensor loses
SHARE_HELD_TWICE = 0.25  # of the arguments' bytes


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
        for group in grouped(padded, place=lambda one: one.padding.tensors[0].location):
            worst = max(group, key=lambda one: one.padding.padded - one.padding.logical)
            padding, first = worst.padding, worst.padding.tensors[0]
            yield self.finding(
                f"tiles make {padding.logical / MIB:.1f} MiB of elements {padding.padded / MIB:.1f} MiB on {chips(group)} "
                f"({padding.padded / padding.logical:.1f} times); most is lost in {in_words(first)}",
                "give the tensor a long last dimension: a multiple of 128, or merge its small dimensions",
                first.location,
                graphs=hashes(group),
                chips=topologies(group),
                logical=padding.logical,
                padded=padding.padded,
                tensors=[as_evidence(tensor) for tensor in padding.tensors[:NAMED]],
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
        for group in grouped(held, place=lambda one: one.held_twice[0].location):
            worst = max(group, key=lambda one: sum(buffer.bytes for buffer in one.held_twice))
            largest = sorted(worst.held_twice, key=lambda buffer: -buffer.bytes)
            size = sum(buffer.bytes for buffer in largest)
            yield self.finding(
                f"{len(largest)} tensors that the step updates ({size_in_words(size)} of its {size_in_words(worst.hbm.arguments)} of arguments) are "
                f"held twice on {chips(group)}: their buffers aren't donated",
                "update them in place (optimizer.step(), or w -= … under torch.no_grad()), and don't set XLA_ENABLE_PARAM_ALIASING=0",
                next((buffer.location for buffer in largest if buffer.location.line), Location()),
                graphs=hashes(group),
                chips=topologies(group),
                bytes=size,
                buffers=[as_evidence(buffer) for buffer in largest[:NAMED]],
            )


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
