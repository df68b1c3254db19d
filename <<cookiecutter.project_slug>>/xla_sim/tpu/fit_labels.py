"""Label every traced operation with the user's line, the module and the phase it belongs to.

XLA keeps one source line for each HLO instruction, taken from the innermost Python frame, which would be a file of torch for
most of them and nothing at all in the backward pass. While `Labels` is active each operation is called from a frame that bears
the line of the user's code instead; the operations of the backward pass get the line of the forward operation that they
differentiate. The phase and the module become the first parts of the instruction's op_name: `forward/layers.3.mlp/…`.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch_xla
from torch.utils._python_dispatch import TorchDispatchMode

from .fit_plan import NeedsValue, Place

_INTERNAL = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep for path in (os.path.dirname(__file__), str(torch.__file__), str(torch_xla.__file__))
)
_OPTIMIZERS = os.path.join(os.path.dirname(str(torch.__file__)), "optim") + os.sep
_READS = ("aten._local_scalar_dense.default", "aten.equal.default", "aten.is_nonzero.default")


class Labels(TorchDispatchMode):
    """Active around one traced step. `module` is the path of the module whose forward runs; the tracer sets it and `phase`.

    Reading a value that has none yet, such as `loss.item()` or `if x.sum() > 0`, raises NeedsValue with the user's line,
    except inside an optimizer, where the stand-in 1 is handed back, the tensor is kept in `read` and the line in `reads`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = "forward"
        self.modules: List[str] = [""]
        self.read: List[torch.Tensor] = []
        self.reads: Dict[str, int] = {}
        self._forward: Dict[int, Tuple[Optional[Place], str]] = {}  # by autograd sequence number
        self._callers: Dict[Place, Callable[..., Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        node = torch._C._current_autograd_node()
        if node is not None and self.phase != "optimizer":
            place, module = self._forward.get(node._sequence_nr(), (None, ""))
            phase = "backward"
        else:
            place, module, phase = user_place(optimizer=self.phase == "optimizer"), self.modules[-1], self.phase
            if phase == "forward":  # the autograd node of this operation was the last to be numbered
                self._forward[torch._C._autograd._get_sequence_nr() - 1] = (place, module)
        if phase == "optimizer" and str(func) == _READS[0] and args[0].device.type == "xla":
            return self._stand_in(args[0], place)
        scope = torch_xla._XLAC.profiler.scope_pusher(f"{phase}/{module or '-'}")
        try:
            return (self._callers.get(place) or self._caller(place))(func._op, args, kwargs or {}) if place else func(*args, **(kwargs or {}))
        except (RuntimeError, ValueError) as error:
            if str(func) in _READS or "Check failed" in str(error) or "xla_mark_tensor" in str(error):
                raise NeedsValue(str(func).split(".")[1], place) from error
            raise
        finally:
            del scope

    def _caller(self, place: Place) -> Callable[..., Any]:
        code = _call.__code__.replace(co_filename=place.file, co_firstlineno=place.line - 1, co_name=place.function)
        return self._callers.setdefault(place, types.FunctionType(code, globals()))

    def _stand_in(self, tensor: torch.Tensor, place: Optional[Place]) -> Any:
        self.read.append(tensor)
        where = str(place) if place else "the optimizer"
        self.reads[where] = self.reads.get(where, 0) + 1
        return True if tensor.dtype == torch.bool else 1.0 if tensor.dtype.is_floating_point else 1


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def user_place(optimizer: bool = False) -> Optional[Place]:
    """The innermost frame outside torch, torch_xla and this package: the user's line, or the model library's.

    Within an optimizer's step the optimizer's own line says more, torch's optimizers included.
    """
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        own = not name.startswith(_INTERNAL) or (optimizer and name.startswith(_OPTIMIZERS) and not name.endswith("optimizer.py"))
        if own and not name.startswith("<"):
            return Place(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
