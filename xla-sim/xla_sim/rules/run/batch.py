"""Rules about the shape of a step's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xla_sim.hlo.module import Instruction, Module
from xla_sim.rules.base import Rule
from xla_sim.rules.run.contexts import load
from xla_sim.trace import Finding, Step, Trace

SUBLANES = 8  # rows of a TPU tile, whatever the dtype of 32 bits


class UnalignedBatch(Rule):
    """The leading dimension of the step's inputs isn't a multiple of 8."""

    code = "XLA105"
    name = "unaligned-batch"
    severity = "info"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        A TPU computes in tiles of 8 rows and 128 columns. A matrix with 65 rows is computed as one with 72.

        **Why a TPU cares.** The rows that fill up the last tile are computed and thrown away, at every step.

        **Bad**

        ```python
        loader = DataLoader(data, batch_size=65)
        ```

        **Good**

        ```python
        loader = DataLoader(data, batch_size=64)
        ```

        **Source.** The inputs that the outermost module was called with, and the dots of the captured HLO whose rows come
        from them; the tile is described in https://openxla.org/xla/tiled_layout. With compile results at hand the
        compiler's own count of rows is given.
        """
        seen: dict[int, tuple[Step, Instruction]] = {}
        for step in trace.timeline:
            for batch in _batches(step):
                if batch % SUBLANES and batch > 1 and batch not in seen:
                    dot = self._dot(trace, step, batch)
                    if dot is not None:
                        seen[batch] = (step, dot)
        for batch, (step, dot) in seen.items():
            rows = _rows(dot)
            computed = -(-rows // SUBLANES) * SUBLANES
            forward = next(f for f in step.forwards if any(s and s[0] == batch for s in f.shapes))
            yield self.finding(
                f"a batch of {batch} is computed as {computed} rows: {computed - rows} of them "
                f"({(computed - rows) / computed:.0%}) are thrown away",
                f"use a batch that is a multiple of {SUBLANES}: {batch // 8 * 8 or 8} or {-(-batch // 8) * 8}",
                forward.location,
                batch=batch,
                rows=rows,
                rows_computed=computed,
                first_step=step.index,
                module=forward.module,
                dot=str(dot.shape),
            )

    def check_compiled(self, results: Any, trace: Any) -> Iterable[Finding]:
        from xla_sim.rules.chip.figures import rows_computed

        return rows_computed(self, results, trace)

    def _dot(self, trace: Trace, step: Step, batch: int) -> Instruction | None:
        """A matrix product in that step whose rows come from the batch and don't fill their tiles."""
        for execution in step.executions:
            module = load(trace, execution.graph)
            if module is None:
                continue
            for dot in _activation_dots(module):
                if _rows(dot) % batch == 0 and _rows(dot) % SUBLANES:
                    return dot
        return None


def _batches(step: Step) -> Iterator[int]:
    """Leading dimensions of what the outermost modules were given."""
    for forward in step.forwards:
        shapes = [shape for shape in forward.shapes if len(shape) > 1]
        if shapes:
            yield shapes[0][0]


def _activation_dots(module: Module) -> Iterator[Instruction]:
    for instruction in module.entry.instructions:
        if instruction.opcode == "dot" and len(instruction.shape.dims) - len(instruction.batch[0]) >= 2:
            yield instruction


def _rows(dot: Instruction) -> int:
    """Rows of the product: what is left of the first operand, without batch dimensions."""
    dims = dot.shape.dims[len(dot.batch[0]) :]
    rows = 1
    for size in dims[:-1]:
        rows *= size
    return rows
