"""How far a running program is: steps and compilations, read from its event log while it grows."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

REPEAT = 9  # digits of a count that is written in place; see `observe.recorder`


class Tally:
    """Counts of one run directory; `look` reads what was appended since the last time."""

    def __init__(self, directory: Path) -> None:
        self.steps = 0
        self.compilations = 0
        self._path = directory / "events.jsonl"
        self._offset = 0
        self._before = 0  # steps before the last one that is stored
        self._marked = False  # whether that one was closed by a mark
        self._repeat_at = -1  # where its count stands in the file

    def look(self) -> None:
        with contextlib.suppress(OSError, ValueError), open(self._path, "rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._take(line)
                self._offset += len(line)
            if self._marked and self._repeat_at >= 0:
                log.seek(self._repeat_at)
                self.steps = self._before + int(log.read(REPEAT))

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event["e"] == "graph":
            self.compilations += 1
        elif event["e"] == "step":
            self._before, self._marked, self._repeat_at = self.steps, event["mark"] is not None, -1
            self.steps += self._marked
        elif event["e"] == "repeat":
            self._repeat_at = self._offset + line.index(b'"n":"') + len('"n":"')
