"""Tells a read of this step's own batch from one of what the step before has left.

Both may run before a step calls its first module. The first waits for the device in the middle of a step
(``lengths.max().item()``, to pad with it), the second is the read after the mark that every guide recommends. The evidence
is in what the value is computed from: tensors that were sent to the device and that no closed step has used yet.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor

from xla_sim.observe import frames
from xla_sim.observe.recorder import Recorder
from xla_sim.observe.watch.modules import ModuleWatch

READING = frozenset(
    {
        "item", "tolist", "cpu", "to", "numpy", "equal", "allclose", "nonzero", "masked_select", "unique", "bincount",
        "repeat_interleave", "__bool__", "__int__", "__float__", "__index__", "__repr__", "__format__", "__getitem__",
        "__contains__",
    }
)  # fmt: skip


class BatchReads:
    """Follows tensors by torch_xla's ids while single ops are watched."""

    def __init__(self, xlac: Any, recorder: Recorder, modules: ModuleWatch) -> None:
        self.xlac = xlac
        self.recorder = recorder
        self.modules = modules
        self._sent: set[int] = set()  # to the device, and used by no step that is closed
        self._used: set[int] = set()  # by this step
        self._made: set[int] = set()  # by ops of this step
        self._made_before: set[int] = set()  # by ops of the step before
        self._marks = 0  # since the watching began
        self._ran: int | None = None  # executions before a call that may be such a read
        self._on = False
        self._install()

    def _install(self) -> None:
        """Loaders send their batches from threads of their own, through this function."""
        send = self.xlac._xla_tensors_from_aten

        def watched_send(*args: Any, **kwargs: Any) -> Any:
            tensors = send(*args, **kwargs)
            if self._on:
                self.recorder.harmless(lambda: self._sent.update(self._ids(tensors)))
            return tensors

        self.xlac._xla_tensors_from_aten = watched_send

    def turn(self, on: bool) -> None:
        """Begin anew, or stop."""
        self._on = on
        self._sent, self._used, self._made, self._made_before, self._marks = set(), set(), set(), set(), 0

    def marked(self) -> None:
        """A step mark has closed some work."""
        self._sent -= self._used
        self._used, self._made_before, self._made = set(), self._made, set()
        self._marks += 1

    def before(self, func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Look whether ``func`` may read, before the step's first module, a value computed from the step's batch."""
        if func.__name__ not in READING or not self._marks or self.modules.calls or not self._sent:
            return
        read = [t for t in args if isinstance(t, Tensor) and t.device.type == "xla"]
        read += [t for t in args[1:] if isinstance(t, (tuple, list)) for t in t if isinstance(t, Tensor)]
        if read and self._of_this_step([t for t in read if t.device.type == "xla"]):
            self._ran = self._executions()

    def _executions(self) -> int:
        return self.xlac._xla_counter_value("ExecuteComputation") or 0

    def _of_this_step(self, read: list[Tensor]) -> bool:
        try:
            sources = set(self.xlac._get_tensors_xla_device_data_node(read)[0])
        except RuntimeError:  # torch_xla 2.4: a source is being computed still, so it is of the step before
            return False
        if not sources & self._sent:
            return False
        results = sources & self._made_before
        return not results or results <= set(self._ids(self._kept()))

    def _kept(self) -> Iterator[Tensor]:
        """Parameters and buffers: an optimizer's ops make them anew at every step, and yet they are no results."""
        for root in list(self.modules.roots):
            yield from root.parameters()
            yield from root.buffers()

    def after(self, args: tuple[Any, ...], result: Any) -> None:
        """Remember what an op has used, and whether it computed its result or sent it; note the line if it did read."""
        ran, self._ran = self._ran, None
        if ran is not None and self._executions() > ran:
            where = self.recorder.frames(frames.stack(sys._getframe()))
            self.recorder.emit("fact", name="batch-read", step=0, at=where, values={})
        used = set(self._ids(args))
        made = set(self._ids((result,), least=0 if used else 1))  # a single number that is sent is no batch
        self._used |= used
        if used:
            self._made |= made
        else:
            self._sent |= made

    def _ids(self, values: Iterable[Any], least: int = 0) -> Iterator[int]:
        """Of the tensors on the device that have at least so many dimensions, also within lists."""
        for value in values:
            if isinstance(value, Tensor):
                if value.device.type == "xla" and value.dim() >= least:
                    with contextlib.suppress(RuntimeError):  # it is none to torch_xla: flattened weights of nn.GRU
                        yield self.xlac._xla_get_tensor_id(value)
            elif isinstance(value, (tuple, list)):
                yield from self._ids(value, least)
