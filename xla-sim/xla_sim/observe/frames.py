"""Python frames, captured cheaply."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, FunctionType
from typing import Any

from xla_sim.ownership import is_ours, is_torch_file, is_user_file

RawFrame = tuple[str, int, str]  # file, line, function
_LIMIT = 64


def stack(frame: FrameType | None) -> tuple[RawFrame, ...]:
    """The frames from ``frame`` outwards, innermost first, without ours."""
    frames: list[RawFrame] = []
    while frame is not None and len(frames) < _LIMIT:
        code = frame.f_code
        if not is_ours(code.co_filename):
            frames.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return without_repeats(frames)


def without_repeats(frames: Sequence[RawFrame]) -> tuple[RawFrame, ...]:
    """A frame that `call_as` stood in for comes once."""
    return tuple(f for i, f in enumerate(frames) if f not in frames[:i])


@functools.lru_cache(maxsize=65536)
def _stand_in(file: str, line: int, function: str) -> Callable[..., Any]:
    template = lambda func, args, kwargs: func(*args, **kwargs)
    code = template.__code__.replace(co_filename=file, co_firstlineno=line, co_name=function)
    return FunctionType(code, {"__builtins__": builtins})


def call_as(frame: FrameType | None, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call ``func`` so that the innermost Python frame is that of the nearest caller outside torch.

    torch_xla writes the innermost frame into the HLO as the line that made an op; this keeps our frames out of it,
    and makes it the line of the model instead of one in torch/nn.
    """
    while frame is not None:
        code = frame.f_code
        if not is_ours(code.co_filename) and not is_torch_file(code.co_filename):
            return _stand_in(code.co_filename, frame.f_lineno, code.co_name)(func, args, kwargs)
        frame = frame.f_back
    return func(*args, **kwargs)


def caller() -> tuple[RawFrame, ...]:
    """The stack of whoever called the function that calls this."""
    return stack(sys._getframe(2))


def user_frame(frames: Sequence[RawFrame]) -> RawFrame | None:
    """The innermost of the user's own frames."""
    return next((frame for frame in frames if is_user_file(frame[0])), None)


def has_user_frame(frames: Iterable[RawFrame]) -> bool:
    return any(is_user_file(frame[0]) for frame in frames)
