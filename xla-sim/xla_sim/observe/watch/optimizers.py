"""Watches optimizers: where they were made, which parameters get gradients, and whether gradients are ever cleared."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.weak import TensorWeakRef

from xla_sim.observe import frames
from xla_sim.observe.recorder import Recorder
from xla_sim.observe.watch.modules import ModuleWatch

LOOKS = (2, 3, 8, 64)  # steps after which the parameters themselves are looked at; and at the end


class _State:
    """One optimizer. Gradients and parameters are held weakly, so that watching keeps nothing alive."""

    def __init__(self, number: int, name: str, created: int) -> None:
        self.number = number
        self.name = name  # of the class
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
        self.instead: list[str] = []  # names of what gets gradients, while this one's parameters never had any
        self.parameters = 0
        self.device = ""
        # what had no gradient at the last look: position, name, shape, requires_grad, on the host, of no module in use
        self.without: list[tuple[int, str, list[int], bool, bool, bool]] = []


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
            if not torch.compiler.is_compiling():
                self._state(optimizer, frames.caller()).cleared = True
            zero_grad(optimizer, *args, **kwargs)

        torch.optim.Optimizer.__init__ = watched_init
        torch.optim.Optimizer.zero_grad = watched_zero_grad
        self._install_zeroing()
        register_optimizer_step_pre_hook(lambda o, a, k: self._watch(self._before, o))
        register_optimizer_step_post_hook(lambda o, a, k: self._watch(self._after, o))

    def _install_zeroing(self) -> None:
        """See every other way in which people clear gradients: tensor by tensor, by module, or all at once."""
        zero, fill, foreach_zero = torch.Tensor.zero_, torch.Tensor.fill_, torch._foreach_zero_
        module_zero = torch.nn.Module.zero_grad

        def watched_zero(tensor: torch.Tensor) -> torch.Tensor:
            if torch.compiler.is_compiling():
                return zero(tensor)
            self._note([tensor])
            return frames.call_as(sys._getframe(1), zero, (tensor,), {})

        def watched_fill(tensor: torch.Tensor, value: Any) -> torch.Tensor:
            if torch.compiler.is_compiling():
                return fill(tensor, value)
            if not isinstance(value, torch.Tensor) and value == 0:
                self._note([tensor])
            return frames.call_as(sys._getframe(1), fill, (tensor, value), {})

        def watched_foreach(tensors: Any) -> None:
            if torch.compiler.is_compiling():
                foreach_zero(tensors)
                return
            self._note(tensors)
            frames.call_as(sys._getframe(1), foreach_zero, (tensors,), {})

        def watched_module(module: torch.nn.Module, set_to_none: bool = True) -> None:
            if not torch.compiler.is_compiling():
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
            state = self._states[optimizer] = _State(self._count, type(optimizer).__name__, self.recorder.frames(made))
            weakref.finalize(optimizer, self._gone, state).atexit = False
        return state

    def _watch(self, look: Callable[[torch.optim.Optimizer], None], optimizer: torch.optim.Optimizer) -> None:
        if torch.compiler.is_compiling():
            return
        with torch._C.DisableTorchFunction():  # looking at gradients is none of the program's ops
            self.recorder.harmless(look, optimizer)

    def _before(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.recorder.alive:
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
        if state is None or not self.recorder.alive:
            return
        if state.steps < 17 or not (state.steps + 1) & state.steps:
            grads = ((i, p.grad) for i, p in enumerate(_parameters(optimizer)))
            state.before = {i: (TensorWeakRef(grad), grad._version) for i, grad in grads if grad is not None}
        state.cleared = False
        state.backwards = self.backwards
        self._zeroed.clear()
        self._zeroed_shapes.clear()
        if state.steps in LOOKS:
            self._look(optimizer, state)
            self._emit(state)

    def take_steps(self) -> list[int]:
        stepped, self.stepped = self.stepped, []
        return stepped

    def finish(self) -> None:
        for optimizer, state in list(self._states.items()):
            if state.steps:
                self._look(optimizer, state)
                self._emit(state)

    def _gone(self, state: _State) -> None:
        """The program has let go of an optimizer: what is known of it is final."""
        if state.steps:
            self.recorder.harmless(self._emit, state)

    def tensors(self) -> list[torch.Tensor]:
        """Every parameter that an optimizer holds."""
        return [p for optimizer in list(self._states) for p in _parameters(optimizer)]

    def _look(self, optimizer: torch.optim.Optimizer, state: _State) -> None:
        names = {id(p): name for name, p in self.modules.parameters()}
        parameters = _parameters(optimizer)
        state.parameters = len(parameters)
        state.device = next((p.device.type for p in parameters), "")
        state.without = [
            (i, names.get(id(p), ""), list(p.shape), p.requires_grad, p.device.type != "xla", id(p) not in names)
            for i, p in enumerate(parameters)
            if i not in state.had_grad and not is_lazy(p)
        ]
        gone = [entry for entry in state.without if entry[3] and entry[5]]
        state.orphans.update(dict.fromkeys(self._orphans(gone)))
        state.instead = [] if state.had_grad else self._orphans(state.without, alike=False)

    def _emit(self, state: _State) -> None:
        without = [entry for entry in state.without if entry[0] not in state.had_grad]
        self.recorder.emit(
            "optimizer", id=state.number, name=state.name, created=state.created,
            stepped=state.stepped, steps=state.steps, parameters=state.parameters, device=state.device,
            without=[(name, shape, grad) for _, name, shape, grad, _, _ in without[:200]],
            without_count=len(without), on_host=sum(entry[4] for entry in without),
            replaced=sum(entry[5] for entry in without),
            orphans=list(state.orphans or ([] if state.had_grad else state.instead))[:200],
            uncleared=state.uncleared, uncleared_of=state.uncleared_of, accumulated=state.accumulated,
        )  # fmt: skip

    def _orphans(self, gone: list[tuple[int, str, list[int], bool, bool, bool]], alike: bool = True) -> list[str]:
        """Parameters in use that have a gradient and that no optimizer holds, where one holds what is gone.

        They took the place of those: of the same shape if ``alike``, or, when a layer was replaced by a smaller one, of any.
        """
        if not gone:
            return []
        held = {id(p) for p in self.tensors()}
        found = [(name, p) for name, p in self.modules.parameters() if id(p) not in held and p.grad is not None]
        shapes = {tuple(entry[2]) for entry in gone if alike}
        return [name for name, p in found if tuple(p.shape) in shapes] or [name for name, _ in found]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
