"""Watches modules: which are called as the outermost one and with what, and ties that a move to the device breaks."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from xla_sim.observe import frames
from xla_sim.observe.recorder import Recorder

MOST_NAMED = 2000  # parameters whose names are told


class ModuleWatch:
    def __init__(self, recorder: Recorder, began: Callable[[], None]) -> None:
        self.recorder = recorder
        self.began = began  # called at the first call of a step
        self.roots: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  # every outermost module that was called
        self.calls: dict[tuple[Any, ...], list[Any]] = {}  # of the step: key -> [count, frames]
        self._inside = threading.local()
        self._named = 0  # outermost modules whose parameters are reported
        self._ties: list[tuple[weakref.ref[torch.nn.Module], list[list[str]], int]] = []

    def install(self) -> None:
        call, apply = torch.nn.Module.__call__, torch.nn.Module._apply
        inside, moving = self._inside, threading.local()

        def watched_call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or getattr(inside, "on", False):
                return call(module, *args, **kwargs)
            inside.on = True
            try:
                self._called(module, args, kwargs)
                return call(module, *args, **kwargs)
            finally:
                inside.on = False

        def watched_apply(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or getattr(moving, "on", False):
                return apply(module, *args, **kwargs)
            moving.on = True
            before: list[list[str]] = []
            try:
                self.recorder.harmless(lambda: before.extend(tied_names(module)))
                result = apply(module, *args, **kwargs)
            finally:
                moving.on = False
            if before:
                self._ties.append((weakref.ref(module), before, self.recorder.frames(frames.caller())))
            return result

        torch.nn.Module.__call__ = watched_call
        torch.nn.Module._apply = watched_apply

    def _called(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.roots.add(module)
        if not self.calls:
            self.recorder.harmless(self.began)
        shapes = tuple(tuple(t.shape) for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor))
        key = (type(module).__name__, module.training, torch.is_grad_enabled(), shapes)
        seen = self.calls.get(key)
        if seen is None:
            self.calls[key] = [1, frames.stack(sys._getframe(2))]
        else:
            seen[0] += 1

    def take_calls(self) -> list[tuple[Any, ...]]:
        """The calls since the last time: module, training, grad, shapes, count, frames."""
        calls = [(*key, count, self.recorder.frames(stack)) for key, (count, stack) in self.calls.items()]
        self.calls = {}
        return calls

    def parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Of every outermost module that was called."""
        for root in list(self.roots):
            yield from root.named_parameters()

    def report_parameters(self) -> None:
        """Name, shape and type of each parameter, again when there are more modules."""
        roots = list(self.roots)
        if len(roots) <= self._named:
            return
        self._named, found = len(roots), []
        with torch._C.DisableTorchFunction():  # looking at a parameter is none of the program's ops
            for root in roots:
                above = f"{type(root).__name__}." if len(roots) > 1 else ""
                for name, one in root.named_parameters():
                    if not is_lazy(one):
                        found.append((above + name, list(one.shape), str(one.dtype).rpartition(".")[2]))
        self.recorder.emit("parameters", named=found[:MOST_NAMED])

    def report_ties(self, step: int) -> None:
        """Ties that are still broken now that training begins."""
        pending, self._ties = self._ties, []
        for ref, groups, where in pending:
            module = ref()
            if module is None:
                continue
            now = dict(module.named_parameters(remove_duplicate=False))
            for group in groups:
                found = {id(now[name]): name for name in group if name in now}
                if len(found) > 1 and all(now[name].device.type == "xla" for name in found.values()):
                    shape = list(now[next(iter(found.values()))].shape)
                    self.recorder.emit(
                        "fact", name="tie-broken", step=step, at=where,
                        values={"names": group, "shape": shape, "module": type(module).__name__},
                    )  # fmt: skip


def tied_names(module: torch.nn.Module) -> list[list[str]]:
    """Names of parameters that are one tensor, or views of the whole of one storage."""
    groups: dict[Any, list[str]] = {}
    with torch._C.DisableTorchFunction():  # looking at a parameter is none of the program's ops
        for name, parameter in module.named_parameters(remove_duplicate=False):
            key: Any = id(parameter)
            if not is_lazy(parameter) and parameter.device.type == "cpu" and parameter.numel():
                key = (parameter.data_ptr(), parameter.numel())
            groups.setdefault(key, []).append(name)
    return [names for names in groups.values() if len(names) > 1]
