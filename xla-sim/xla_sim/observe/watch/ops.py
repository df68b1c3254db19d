"""Watches single ops for a few steps, to learn which line calls an op that runs on the host.

torch_xla counts its CPU fallbacks (counters ``aten::…``) but doesn't say where they came from. A torch function mode looks
at the counters after each call; it is on only while there is something to learn, since it costs microseconds a call.
"""

from __future__ import annotations

import sys
import threading
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from xla_sim.observe import frames
from xla_sim.observe.recorder import Recorder
from xla_sim.observe.watch.reads import BatchReads

# counted like fallbacks, but a read of a value, which is its own matter
READS = frozenset({"aten::_local_scalar_dense", "aten::item"})
# ops that may move a tensor between host and device, and the position of what they move
MOVES = {Tensor.to: 0, Tensor.cpu: 0, torch.tensor: 0, torch.as_tensor: 0, Tensor.copy_: 1, Tensor.new_tensor: 1}
BIG = 1 << 20  # bytes from which sending the same tensor again is worth a word


class Counters:
    """torch_xla's fallback counters, as increments."""

    def __init__(self, xlac: Any) -> None:
        self.xlac = xlac
        self._last: dict[str, int] = {}

    def values(self) -> dict[str, int]:
        value = self.xlac._xla_counter_value
        names = (name for name in self.xlac._xla_counter_names() if name.startswith("aten::"))
        return {name: value(name) or 0 for name in names if name not in READS}

    def increments(self) -> dict[str, int]:
        now = self.values()
        grown = {name: count - self._last.get(name, 0) for name, count in now.items()}
        self._last = now
        return {name: count for name, count in grown.items() if count > 0}


class OpWatch(TorchFunctionMode):
    """A torch function mode that names the line of each fallback.

    It sits above autograd, so the graph stays what it would be without it; a dispatch mode, below, changes the graph.
    """

    def __init__(self, recorder: Recorder, counters: Counters, reads: BatchReads) -> None:
        super().__init__()
        self.recorder = recorder
        self.counters = Counters(counters.xlac)
        self.found: dict[tuple[str, int], int] = {}
        self.step = 0  # steps that are complete
        # shape, dtype and checksum: where it was sent first, and the steps
        self._uploads: dict[tuple[tuple[int, ...], str, int], tuple[int, set[int]]] = {}
        self._thread = threading.get_ident()
        self._on = False
        self.stopped = False
        self.reads = reads

    def stop(self) -> None:
        """Off for good: dynamo would trace this mode together with the program's own ops."""
        self.stopped = True
        self.turn(False)

    def turn(self, on: bool) -> None:
        """On or off, from the thread that made this; elsewhere nothing happens."""
        if on == self._on or (on and self.stopped) or threading.get_ident() != self._thread:
            return
        if on:
            self.counters.increments()
            self.__enter__()
        elif _get_current_function_mode() is self:  # another mode lies above: it stays on, which costs time alone
            self.__exit__(None, None, None)
        else:
            return
        self._on = on
        self.reads.turn(on)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.compiler.is_compiling():
            return func(*args, **(kwargs or {}))
        self.recorder.harmless(self.reads.before, func, args)
        result = frames.call_as(sys._getframe(1), func, args, kwargs or {})
        if func.__name__ == "__get__":
            return result  # an attribute such as x.shape: no op, and looked at often
        self.recorder.harmless(self.look)
        self.recorder.harmless(self.reads.after, args, result)
        if func in MOVES:
            self.recorder.harmless(self._moved, args[MOVES[func] :], result)
        return result

    def _moved(self, args: tuple[Any, ...], result: Any) -> None:
        """Remember large tensors that pass between host and device, and whether the same is sent step after step."""
        source = args[0] if args else None
        if type(source).__module__ == "numpy" and isinstance(result, Tensor) and result.numel() * 4 >= BIG:
            with torch._C.DisableTorchFunction():
                source = torch.as_tensor(source)
        if not isinstance(source, Tensor) or is_lazy(source) or not isinstance(result, Tensor):
            return
        size = source.numel() * source.element_size()
        if size < BIG or source.device.type == result.device.type:
            return
        if source.device.type == "xla":
            values = {"bytes": size, "shape": list(source.shape)}
            where = self.recorder.frames(frames.stack(sys._getframe()))
            self.recorder.emit("fact", name="download", step=self.step, at=where, values=values)
            return
        with torch._C.DisableTorchFunction():
            content = zlib.crc32(source.detach().contiguous().flatten().view(torch.uint8).numpy())
        where, steps = self._uploads.setdefault(
            (tuple(source.shape), str(source.dtype), content),
            (self.recorder.frames(frames.stack(sys._getframe())), set()),
        )
        if self.step not in steps:
            steps.add(self.step)
            values = {"bytes": size, "shape": list(source.shape), "steps": len(steps), "of": self.step - min(steps) + 1}
            if len(steps) > 1:
                self.recorder.emit("fact", name="upload", step=self.step, at=where, values=values)

    def look(self) -> None:
        """Blame what ran on the host since the last look on the line that is running."""
        if not self._on:
            return
        grown = self.counters.increments()
        if grown:
            where = self.recorder.frames(frames.stack(sys._getframe()))
            for op, count in grown.items():
                self.found[op, where] = self.found.get((op, where), 0) + count

    def report(self) -> None:
        for (op, where), count in self.found.items():
            self.recorder.emit("fallback", op=op, n=count, at=where)
        self.found = {}
