"""The process that compiles: it imports jaxlib and libtpu once, then forks a process for every compilation.

``python -m xla_sim.compiler.worker`` reads requests from its standard input, a JSON object a line, and reports on its standard output:
``ready``, ``unavailable``, ``started`` and ``ended``. A fork costs milliseconds where a fresh interpreter would pay for all imports, and
a compiler that dies, hangs or eats the memory takes nobody with it. When its input ends, it ends its children and itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sim.compiler import libtpu

_TICK = 0.02  # seconds between two looks at whether the children live
_MEMORY_EVERY = 0.2  # seconds between two looks at their memory, which is read from several files
_PAGE = resource.getpagesize()
_PR_SET_PDEATHSIG = 1


@dataclass
class _Child:
    pid: int
    deadline: float
    memory: int  # bytes; 0: no limit
    why: str = ""  # "timeout" or "memory" when this process ended it
    seen: int = 0  # bytes when it took too much memory
    next_look: float = 0.0  # at its memory, on the clock of `deadline`


def main() -> None:
    reports = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # what libraries print belongs in the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        libtpu.load()
    except (ImportError, OSError) as error:
        _report(reports, event="unavailable", message=str(error))
        return
    _report(reports, event="ready")
    children: dict[int, _Child] = {}
    pending = b""
    while True:
        if select.select([0], [], [], _TICK if children else None)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                _start(json.loads(line), children, reports)
        _watch(children, reports)
    for child in children.values():
        os.kill(child.pid, signal.SIGKILL)


def _report(reports: Any, **values: Any) -> None:
    reports.write(json.dumps(values) + "\n")
    reports.flush()


def _start(request: dict[str, Any], children: dict[int, _Child], reports: Any) -> None:
    pid = os.fork()
    if pid == 0:
        _run_and_exit(request)
    children[request["id"]] = _Child(pid, time.monotonic() + request["seconds"], request["memory"])
    _report(reports, event="started", id=request["id"], pid=pid)


def _watch(children: dict[int, _Child], reports: Any) -> None:
    """Report what ended, and end what took too long or too much."""
    for number, child in list(children.items()):
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            del children[number]
            signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
            rss = max(usage.ru_maxrss * 1024, child.seen)
            _report(reports, event="ended", id=number, signal=signum, code=code, why=child.why, rss=rss)
        elif not child.why:
            now = time.monotonic()
            child.why = "timeout" if now > child.deadline else ""
            taken = 0
            if child.memory and now > child.next_look:
                taken, child.next_look = _resident(child.pid), now + _MEMORY_EVERY
            if taken > child.memory:
                child.why, child.seen = "memory", taken
            if child.why:
                os.kill(child.pid, signal.SIGKILL)


def _resident(pid: int) -> int:
    """Bytes of a child and all processes below it; what a fork shares with its parent, some 100 MB, counts in both."""
    return sum(map(_rss, _tree(pid)))


def _tree(pid: int) -> list[int]:
    """With what its main thread forked: the compiler has a hundred threads besides, and they fork nothing."""
    try:
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        children = []  # it has just ended
    return [pid, *(below for child in children for below in _tree(child))]


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0  # it has just ended


def _run_and_exit(request: dict[str, Any]) -> None:
    """The child: compile, write the result, and leave without running anybody's exit handlers."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        with contextlib.suppress(OSError):  # out of memory, the kernel shall take this process and not the user's
            Path("/proc/self/oom_score_adj").write_text("1000")
        module, _, function = request["answer"].partition(":")
        values = getattr(importlib.import_module(module), function)(request)
        part = Path(request["out"] + ".part")
        part.write_text(json.dumps(values))
        part.replace(request["out"])
        code = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs in the log, and the process ends here
        import traceback

        code = libtpu.exit_code(error)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


__all__: list[str] = ["main"]

if __name__ == "__main__":
    main()
