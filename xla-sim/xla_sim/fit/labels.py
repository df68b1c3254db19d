"""Label every traced operation with the user's line, the module and the phase it belongs to.

XLA keeps one source line for each HLO instruction, taken from the innermost Python frame, which would be a file of torch for
most of them and nothing at all in the backward pass. While `Labels` is active each operation is called from a frame that bears
the line of the user's code instead; the operations of the backward pass get the line of the forward operation that they
differentiate. The phase and the module become the first parts of the instruction's op_name: `forward/layers.3.mlp/…`.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch_xla
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from xla_sim.fit.plan import NeedsValue, Place

_INTERNAL = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep
    for path in (os.path.dirname(__file__), str(torch.__file__), str(torch_xla.__file__))
)
_OPTIMIZERS = os.path.join(os.path.dirname(str(torch.__file__)), "optim") + os.sep
_ITEM = "aten._local_scalar_dense.default"
_READS = {
    _ITEM,
    "aten.equal.default",
    "aten.nonzero.default",
    "aten.masked_select.default",
}  # the result depends on values
_MASKED = {"aten.index.Tensor", "aten.index_put.default", "aten.index_put_.default", "aten._index_put_impl_.default"}
_READS |= {"aten._unique2.default", "aten.unique_dim.default", "aten.unique_consecutive.default"}
# autograd and views make these around a sync, which they don't put into the middle of the step
_NAMES_ONLY = {getattr(torch.ops.aten, name) for name in ("detach", "detach_copy", "alias", "alias_copy")}


class Labels(TorchDispatchMode):
    """Active around one traced step. `module` is the path of the module whose forward runs; the tracer sets it and `phase`.

    Reading a value that has none yet, such as `loss.item()` or `if x.sum() > 0`, raises NeedsValue with the user's line,
    except inside an optimizer, where the stand-in 1 is handed back, the tensor is kept in `read` and the line in `reads`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = "forward"
        self.modules: list[str] = [""]
        self.read: list[torch.Tensor] = []
        self.reads: dict[str, int] = {}
        self.syncs: list[tuple[Place | None, int]] = []  # torch_xla.sync() and how many operations came before
        self.operations = 0
        self._forward: dict[int, tuple[Place | None, str]] = {}  # by autograd sequence number
        self._callers: dict[Place, Callable[..., Any]] = {}

    def __enter__(self) -> Any:
        torch_xla._XLAC._set_allow_execution(False)  # what escapes the dispatcher, as print does, is stopped too
        self._step_marker = torch_xla._XLAC._xla_step_marker
        torch_xla._XLAC._xla_step_marker = lambda *_, **__: self.syncs.append((user_place(), self.operations))
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
    ) -> None:
        torch_xla._XLAC._set_allow_execution(True)
        torch_xla._XLAC._xla_step_marker = self._step_marker
        super().__exit__(kind, error, traceback)
        if error is not None and "Unexpected execution" in str(error):
            raise NeedsValue("this line", _last_place(traceback)) from error

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += func.namespace == "aten" and func.overloadpacket not in _NAMES_ONLY
        node = torch._C._current_autograd_node()
        if node is not None and self.phase != "optimizer":
            place, module = self._forward.get(node._sequence_nr(), (None, ""))
            phase = "backward"
        else:
            place, module, phase = user_place(optimizer=self.phase == "optimizer"), self.modules[-1], self.phase
            if phase == "forward":  # the autograd node of this operation was the last to be numbered
                self._forward[torch._C._autograd._get_sequence_nr() - 1] = (place, module)
        if phase == "optimizer" and str(func) == _ITEM and args[0].device.type == "xla":
            return self._stand_in(args[0], place)
        takes_value, placeholder = _takes_value(func, args, kwargs or {})
        if placeholder:
            raise NeedsValue(str(func).split(".")[1], place)
        if takes_value:  # of constants made in the step: their few operations can run
            torch_xla._XLAC._set_allow_execution(True)
        scope = torch_xla._XLAC.profiler.scope_pusher(f"{phase}/{module or '-'}")
        try:
            if place is None:
                return func(*args, **(kwargs or {}))
            return (self._callers.get(place) or self._caller(place))(func._op, args, kwargs or {})
        finally:
            del scope
            if takes_value:
                torch_xla._XLAC._set_allow_execution(False)

    def cuts(self) -> list[str]:
        """Lines of torch_xla.sync() in the middle of the step, where it would be cut in two."""
        return [str(place) for place, before in self.syncs if place and 0 < before < self.operations]

    def _caller(self, place: Place) -> Callable[..., Any]:
        code = _call.__code__.replace(co_filename=place.file, co_firstlineno=place.line - 1, co_name=place.function)
        return self._callers.setdefault(place, types.FunctionType(code, globals()))

    def _stand_in(self, tensor: torch.Tensor, place: Place | None) -> Any:
        self.read.append(tensor)
        where = str(place) if place else "the optimizer"
        self.reads[where] = self.reads.get(where, 0) + 1
        return True if tensor.dtype == torch.bool else 1.0 if tensor.dtype.is_floating_point else 1


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _last_place(traceback: types.TracebackType | None) -> Place | None:
    place = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(_INTERNAL):
            place = Place(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return place


def _takes_value(func: Any, args: Any, kwargs: Any) -> tuple[bool, bool]:
    """Whether this operation takes a value out of the graph, and whether the value depends on a placeholder."""
    tensors = [
        leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.device.type == "xla"
    ]
    if not tensors:
        return False, False
    name = str(func)
    to_host = str(kwargs.get("device", "")).startswith("cpu") or (
        name == "aten.copy_.default" and args[0].device.type == "cpu"
    )
    by_mask = name in _MASKED and any(
        leaf.dtype in (torch.bool, torch.uint8) for leaf in tree_leaves(args[1]) if leaf is not None
    )
    if not (name in _READS or to_host or by_mask or (func.namespace == "aten" and not _lowered(func.name()))):
        return False, False
    _, values = torch_xla._XLAC._get_tensors_xla_device_data_node(tensors)
    return True, any(torch_xla._XLAC._is_placecholder(value) for value in values)


@functools.cache
def _lowered(name: str) -> bool:
    """Whether torch_xla runs the operation on the device; the others fall back to the host."""
    keys = ("XLA", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def user_place(optimizer: bool = False) -> Place | None:
    """The innermost frame outside torch, torch_xla and this package: the user's line, or the model library's.

    Within an optimizer's step the optimizer's own line says more, torch's optimizers included.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        own = not name.startswith(_INTERNAL) or (
            optimizer and name.startswith(_OPTIMIZERS) and not name.endswith("optimizer.py")
        )
        if own and not name.startswith("<"):
            return Place(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
