"""A Ctrl-C that is never lost.

Python raises KeyboardInterrupt wherever the main thread happens to be. Where that is a finalizer or a callback of C++ (torch has many while a
step is traced), the exception is printed as "ignored", and the program goes on as if nobody had asked it to stop. So the signal is noted
as well, and whoever begins the next piece of work asks.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_asked = threading.Event()


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Note SIGINT while this lasts; it raises KeyboardInterrupt as ever."""
    _asked.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def check() -> None:
    """Raise KeyboardInterrupt if it was asked for and has not arrived yet."""
    if _asked.is_set():
        _asked.clear()
        raise KeyboardInterrupt


def _note(number: int, frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt
