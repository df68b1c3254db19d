"""The live line of a running program, on standard error: steps, compilations and seconds.

On a terminal it stands in the bottom row, which is taken out of the region that scrolls, as apt does it: whatever the
program prints scrolls above it, and a line that the program has begun, a progress bar say, is never touched. Elsewhere
it is a plain line now and then. A program that is done sooner shows none.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from xla_sim.observe.tally import Tally
from xla_sim.report.content.words import count, duration

FIRST = 2.0  # seconds until the line appears on a terminal
REFRESH = 0.5
PLAIN = 30.0  # seconds between the lines elsewhere
FEWEST_ROWS = 5  # a terminal with fewer has none to spare


class LiveLine:
    """Call it as often as you like while the program runs; leaving it puts the terminal right again."""

    def __init__(self, directory: Path, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._tally = Tally(directory.resolve())
        self._started = time.monotonic()
        self._terminal = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._next = FIRST if self._terminal else PLAIN
        self._rows = 0  # of the terminal when its bottom row was taken; 0: it isn't

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows:
            self._write(f"\x1b7\x1b[r\x1b[{self._rows};1H\x1b[2K\x1b8")
            self._rows = 0

    def __call__(self) -> None:
        seconds = time.monotonic() - self._started
        if seconds < self._next:
            return
        self._next = seconds + (REFRESH if self._terminal else PLAIN)
        self._tally.look()
        line = f"xla_sim: {count(self._tally.steps, 'step')}, {count(self._tally.compilations, 'compilation')}, "
        line += duration(int(seconds))
        if self._terminal:
            self._draw(line)
        else:
            self._write(f"{line}\n")

    def _draw(self, line: str) -> None:
        try:
            descriptor = self._stream.fileno()
            columns, rows = os.get_terminal_size(descriptor)
            if rows < FEWEST_ROWS or os.tcgetpgrp(descriptor) != os.getpgrp():
                return  # in the background, the terminal is another's
        except OSError:
            return
        text = ""
        if rows != self._rows:  # go a row down, which scrolls where there is none, take the bottom row, and go back
            text = f"\x1bD\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A"
            self._rows = rows
        self._write(f"{text}\x1b7\x1b[{rows};1H\x1b[0m\x1b[2K\x1b[2m{line[: columns - 1]}\x1b[0m\x1b8")

    def _write(self, text: str) -> None:
        """At once, so that nothing of the program's comes between."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._next = float("inf")


def live_line(directory: Path, quiet: bool) -> Any:
    """A context manager that hands out what `supervise_script` calls while it waits."""
    return contextlib.nullcontext() if quiet else LiveLine(directory)
