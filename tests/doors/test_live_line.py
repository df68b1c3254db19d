"""The live line of `xla-sim run`: on a terminal, in a pipe, and not at all when it isn't wanted.

The terminal is a real one (a pty), and what it would show is worked out by the few control sequences that are used.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from xla_sim.observe.recorder import STORED, Recorder
from xla_sim.observe.tally import Tally

COLUMNS, ROWS = 60, 8
SLOW = """\
import sys, time
for number in range(12):
    print(f"row {number}")
for part in ("begun", " and", " ended", "\\n"):
    sys.stdout.write(part)
    sys.stdout.flush()
    time.sleep(0.5)
print("last", file=sys.stderr)
"""
LIVE = """\
import sys
from pathlib import Path
from xla_sim.report import live
live.FIRST, live.REFRESH, live.PLAIN = 0.2, 0.2, 0.9
from xla_sim.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
ENTER = """\
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal is this process's own, as it is a shell's
os.execv(sys.argv[1], sys.argv[1:])
"""
needs_torch_xla = pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla to run a program"
)


class Screen:
    """What a terminal shows: text, line ends, and the sequences for the scrolling region and the cursor."""

    def __init__(self) -> None:
        self.rows = [""] * ROWS
        self.row = self.column = 0
        self.bottom = ROWS - 1  # of the region that scrolls
        self.saved = (0, 0)
        self.left: list[str] = []  # what scrolled away above

    def feed(self, text: str) -> Screen:
        for number, part in enumerate(re.split(r"(\x1b\[[\d;]*[A-Za-z]|\x1b.|[\r\n])", text)):
            if number % 2:
                self._control(part)
            else:
                row, end = self.rows[self.row].ljust(self.column), self.column + len(part)
                self.rows[self.row], self.column = row[: self.column] + part + row[end:], end
        return self

    def _down(self) -> None:
        if self.row == self.bottom:
            self.left.append(self.rows.pop(0))
            self.rows.insert(self.bottom, "")
        else:
            self.row += 1

    def _control(self, part: str) -> None:
        numbers = [int(number) for number in re.findall(r"\d+", part)]
        if part in ("\n", "\x1bD"):
            self._down()
        elif part == "\r":
            self.column = 0
        elif part == "\x1b7":
            self.saved = (self.row, self.column)
        elif part == "\x1b8":
            self.row, self.column = self.saved
        elif part.endswith("r"):
            self.bottom = numbers[1] - 1 if numbers else ROWS - 1
            self.row = self.column = 0
        elif part.endswith("H"):
            self.row, self.column = numbers[0] - 1, numbers[1] - 1
        elif part.endswith("A"):
            self.row -= numbers[0]
        elif part.endswith("K"):
            self.rows[self.row] = ""
        else:
            assert part.endswith("m"), f"a sequence that this screen doesn't know: {part!r}"


def on_a_terminal(folder: Path, program: str, *options: str) -> tuple[list[Screen], str]:
    """Screens as they were after each piece of output, and all of the output."""
    (folder / "program.py").write_text(program)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    command = [sys.executable, "-c", LIVE, "run", "--out", "out", *options, "program.py"]
    environ = {**os.environ, "TERM": "xterm", "PJRT_DEVICE": "CPU"}
    process = subprocess.Popen(
        [sys.executable, "-c", ENTER, *command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environ
    )
    os.close(theirs)
    text, screens, deadline = "", [], time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        text += data.decode()
        screens.append(Screen().feed(text))
    os.close(ours)
    assert process.wait(30) in (0, 1), text
    return screens, text


@needs_torch_xla
def test_on_a_terminal_it_stands_below_what_the_program_prints(tmp_path: Path) -> None:
    screens, _ = on_a_terminal(tmp_path, SLOW)
    shown = {screen.rows[-1] for screen in screens if screen.rows[-1].startswith("xla_sim: ")}
    assert len(shown) >= 2
    assert all(re.fullmatch(r"xla_sim: 0 steps, 0 compilations, \d s", row) for row in shown)
    begun = [screen for screen in screens if screen.rows[-2].startswith("begun")]
    assert {screen.rows[-2] for screen in begun} >= {"begun", "begun and", "begun and ended"}, (
        "a line that the program has begun stands untouched above it"
    )
    last = screens[-1]
    lines = [*last.left, *last.rows]
    said = [f"row {number}" for number in range(12)] + ["begun and ended", "last"]
    assert [line for line in lines if line][: len(said)] == said
    assert not any(line.startswith("xla_sim: ") for line in lines), "it is gone when the program is done"
    assert last.bottom == ROWS - 1, "the whole terminal scrolls again"


@needs_torch_xla
def test_quiet_says_nothing_but_what_the_program_says(tmp_path: Path) -> None:
    _, text = on_a_terminal(tmp_path, SLOW, "--quiet", "--fail-on", "never")
    assert text.replace("\r\n", "\n") == "".join(f"row {n}\n" for n in range(12)) + "begun and ended\nlast\n"


@needs_torch_xla
@pytest.mark.parametrize(("program", "least"), [(SLOW, 1), ("print('done')\n", 0)])
def test_in_a_pipe_it_is_a_line_now_and_then(tmp_path: Path, program: str, least: int) -> None:
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-c", LIVE, "run", "--out", "out", "--fail-on", "never", "program.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "PJRT_DEVICE": "CPU"},
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line != "last"]
    assert least <= len(lines) <= 3
    assert all(re.fullmatch(r"xla_sim: 0 steps, 0 compilations, \d s", line) for line in lines)
    assert "\x1b" not in done.stderr + done.stdout


def test_the_tally_of_a_log_that_grows(tmp_path: Path) -> None:
    """Steps with and without a mark, compilations, and a count that is written in place."""
    recorder, tally = Recorder(tmp_path), Tally(tmp_path)
    seen = []

    def look() -> None:
        tally.look()
        seen.append((tally.steps, tally.compilations))

    look()
    recorder.emit("graph", hash="a", inputs=1, outputs=1)
    recorder.step({"mark": 0, "runs": []})
    look()
    for _ in range(STORED + 10):
        recorder.step({"mark": 0, "runs": [1]})
    look()
    recorder.step({"mark": 0, "runs": [1]})
    look()
    recorder.emit("graph", hash="b", inputs=1, outputs=1)
    recorder.step({"mark": None, "runs": []})
    look()
    assert seen == [(0, 0), (1, 1), (1011, 1), (1012, 1), (1012, 2)]


def test_the_tally_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    tally, event = Tally(tmp_path), json.dumps({"e": "graph", "hash": "a"})
    tally.look()
    (tmp_path / "events.jsonl").write_text(event)
    tally.look()
    assert tally.compilations == 0
    (tmp_path / "events.jsonl").write_text(f"{event}\n")
    tally.look()
    assert tally.compilations == 1
