"""Watches optimizers: where they were made, which parameters get gradients, and whether gradients are ever cleared."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.weak import TensorWeakRef

from xla_sim.observe import frames
from xla_sim.observe.modules import ModuleWatch
from xla_sim.observe.recorder import Recorder


class _State:
    """One optimizer. Gradients and parameters are held weakly, so that watching keeps nothing alive."""

    def __init__(self, number: int, created: int) -> None:
        self.number = number
        self.created = created
        self.stepped: int | None = None
        self.steps = 0
        self.had_grad: set[int] = set()  # positions of parameters
        self.before: dict[int, tuple[TensorWeakRef, int]] = {}  # position: gradient after the last step, its version
        self.cleared = False
        self.uncleared = 0
        self.uncleared_of = 0
        self.backwards = 0
        self.accumulated = False
        self.orphans: dict[str, None] = {}  # names, in order


class OptimizerWatch:
    def __init__(self, recorder: Recorder, modules: ModuleWatch) -> None:
        self.recorder = recorder
        self.modules = modules
        self.stepped: list[int] = []  # optimizers that stepped since the last mark
        self.backwards = 0  # of the whole run
        self._states: weakref.WeakKeyDictionary[torch.optim.Optimizer, _State] = weakref.WeakKeyDictionary()
        self._zeroed: set[int] = set()  # ids of tensors that were filled with zeros since the last optimizer step
        self._zeroed_shapes: set[tuple[int, ...]] = set()
        self._count = 0

    def install(self) -> None:
        init, zero_grad = torch.optim.Optimizer.__init__, torch.optim.Optimizer.zero_grad
        making = threading.local()

        def watched_init(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            if not getattr(making, "on", False):
                self._state(optimizer, frames.caller())
            making.on = True
            try:
                init(optimizer, *args, **kwargs)
            finally:
                making.on = False

        def watched_zero_grad(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            self._state(optimizer, frames.caller()).cleared = True
            zero_grad(optimizer, *args, **kwargs)

        torch.optim.Optimizer.__init__ = watched_init
        torch.optim.Optimizer.zero_grad = watched_zero_grad
        self._install_zeroing()
        register_optimizer_step_pre_hook(lambda o, a, k: self.recorder.harmless(self._before, o))
        register_optimizer_step_post_hook(lambda o, a, k: self.recorder.harmless(self._after, o))

    def _install_zeroing(self) -> None:
        """See every other way in which people clear gradients: tensor by tensor, by module, or all at once."""
        zero, fill, foreach_zero = torch.Tensor.zero_, torch.Tensor.fill_, torch._foreach_zero_
        module_zero = torch.nn.Module.zero_grad

        def watched_zero(tensor: torch.Tensor) -> torch.Tensor:
            self._note([tensor])
            return frames.call_as(sys._getframe(1), zero, (tensor,), {})

        def watched_fill(tensor: torch.Tensor, value: Any) -> torch.Tensor:
            if not isinstance(value, torch.Tensor) and value == 0:
                self._note([tensor])
            return frames.call_as(sys._getframe(1), fill, (tensor, value), {})

        def watched_foreach(tensors: Any) -> None:
            self._note(tensors)
            frames.call_as(sys._getframe(1), foreach_zero, (tensors,), {})

        def watched_module(module: torch.nn.Module, set_to_none: bool = True) -> None:
            self._note(p.grad for p in module.parameters() if p.grad is not None)
            module_zero(module, set_to_none)

        torch.Tensor.zero_ = watched_zero
        torch.Tensor.fill_ = watched_fill
        torch._foreach_zero_ = watched_foreach
        torch.nn.Module.zero_grad = watched_module

    def _note(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self._zeroed.add(id(tensor))
            self._zeroed_shapes.add(tuple(tensor.shape))

    def _state(self, optimizer: torch.optim.Optimizer, made: tuple[frames.RawFrame, ...]) -> _State:
        state = self._states.get(optimizer)
        if state is None:
            self._count += 1
            state = self._states[optimizer] = _State(self._count, self.recorder.frames(made))
        return state

    def _before(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.recorder.alive or torch.compiler.is_compiling():
            return
        stack = frames.caller()
        state = self._state(optimizer, stack)
        state.steps += 1
        if state.stepped is None:
            state.stepped = self.recorder.frames(stack)
        self.stepped.append(state.number)
        if state.steps > 16 and state.steps & (state.steps - 1):
            state.before = {}
            return  # enough is known; look again at powers of two
        uncleared = False
        for position, parameter in enumerate(_parameters(optimizer)):
            grad = parameter.grad
            if grad is None:
                continue
            state.had_grad.add(position)
            uncleared = uncleared or self._still_holds(state, position, grad)
        if state.before:
            state.uncleared_of += 1
            state.uncleared += uncleared and not state.cleared
            state.accumulated |= self.backwards - state.backwards > 1

    def _still_holds(self, state: _State, position: int, grad: torch.Tensor) -> bool:
        """Whether a backward pass added to the gradient that the optimizer had used before."""
        ref, version = state.before.get(position, (None, 0))
        if ref is None or ref() is not grad or grad._version == version:
            return False
        return id(grad) not in self._zeroed and tuple(grad.shape) not in self._zeroed_shapes

    def _after(self, optimizer: torch.optim.Optimizer) -> None:
        state = self._states.get(optimizer)
        if state is None or not self.recorder.alive or torch.compiler.is_compiling():
            return
        if state.steps < 17 or not (state.steps + 1) & state.steps:
            grads = ((i, p.grad) for i, p in enumerate(_parameters(optimizer)))
            state.before = {i: (TensorWeakRef(grad), grad._version) for i, grad in grads if grad is not None}
        state.cleared = False
        state.backwards = self.backwards
        self._zeroed.clear()
        self._zeroed_shapes.clear()
        if state.steps in (3, 8, 64):
            self._emit(optimizer, state)

    def take_steps(self) -> list[int]:
        stepped, self.stepped = self.stepped, []
        return stepped

    def finish(self) -> None:
        for optimizer, state in list(self._states.items()):
            if state.steps:
                self._emit(optimizer, state)

    def tensors(self) -> list[torch.Tensor]:
        """Every parameter that an optimizer holds."""
        return [p for optimizer in list(self._states) for p in _parameters(optimizer)]

    def _emit(self, optimizer: torch.optim.Optimizer, state: _State) -> None:
        names = {id(p): name for name, p in self.modules.parameters()}
        parameters = _parameters(optimizer)
        without = [p for i, p in enumerate(parameters) if i not in state.had_grad]
        shapes = {tuple(p.shape) for p in without if p.requires_grad}
        state.orphans.update(dict.fromkeys(self._orphans(shapes) if shapes else ()))
        self.recorder.emit(
            "optimizer", id=state.number, name=type(optimizer).__name__, created=state.created,
            stepped=state.stepped, steps=state.steps, parameters=len(parameters),
            device=parameters[0].device.type if parameters else "",
            without=[(names.get(id(p), ""), list(p.shape), p.requires_grad) for p in without[:200]],
            without_count=len(without),
            on_host=sum(p.device.type != "xla" for p in without),
            replaced=sum(id(p) not in names for p in without), orphans=list(state.orphans)[:200],
            uncleared=state.uncleared, uncleared_of=state.uncleared_of, accumulated=state.accumulated,
        )  # fmt: skip

    def _orphans(self, shapes: set[tuple[int, ...]]) -> list[str]:
        """Parameters in use that have a gradient and a shape of ``shapes``, and that no optimizer holds."""
        held = {id(p) for p in self.tensors()}
        return [
            name
            for name, p in self.modules.parameters()
            if id(p) not in held and p.grad is not None and tuple(p.shape) in shapes
        ]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
