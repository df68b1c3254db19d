"""How far a batch of compilations is: a bar on a terminal, a line each elsewhere, both on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from xla_sim.compiler.results import CompileRequest


def _what(request: CompileRequest) -> str:
    return f"{request.graph[:8]} for {request.topology}{' with narrow types' if request.narrow else ''}"


class Lines:
    """A line when a compilation ends; nothing for what the cache knows. `label` names one, or the graph and its topology do."""

    def __init__(self, requests: Sequence[CompileRequest], label: str = "") -> None:
        self._all, self._label = len(requests), label
        self._done = 0
        self._started: dict[int, float] = {}

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, event: str, number: int, request: CompileRequest) -> None:
        if event == "start":
            self._started[number] = time.monotonic()
            return
        self._done += 1
        if event == "end":
            seconds = time.monotonic() - self._started[number]
            number_of = f"[{self._done}/{self._all}] " if not self._label else ""
            what = self._label or _what(request)
            print(f"{number_of}compiled {what} in {seconds:.1f} s", file=sys.stderr, flush=True)


class Bar:
    """rich's bar, with what is being compiled and for how long."""

    def __init__(self, requests: Sequence[CompileRequest], label: str = "") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._label = label
        self._task = self._progress.add_task(label or "compiling", total=len(requests))
        self._running: dict[int, str] = {}

    def __enter__(self) -> Any:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, event: str, number: int, request: CompileRequest) -> None:
        if event == "start":
            self._running[number] = self._label or _what(request)
        else:
            self._running.pop(number, None)
            self._progress.advance(self._task)
        self._progress.update(self._task, description=", ".join(self._running.values()) or "compiling")


def progress_bar(requests: Sequence[CompileRequest], label: str = "") -> Any:
    """A context manager that hands out `scheduler.Progress`: a bar on a terminal, a line a compilation elsewhere."""
    return Bar(requests, label) if sys.stderr.isatty() else Lines(requests, label)
