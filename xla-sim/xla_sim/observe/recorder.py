"""The event log: one JSON object a line, appended at once, so that it survives whatever ends the program.

It is bounded: frames are stored once, and beyond `STORED` a step that is like the one before only raises a count,
which is written into the same few bytes again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xla_sim.hlo import module as hlo
from xla_sim.hlo import text
from xla_sim.observe.frames import RawFrame
from xla_sim.ownership import is_ours

STORED = 1000  # steps
MAX_EVENTS = 20_000
MAX_GRAPHS = 64  # kept on disk
MAX_GRAPH_BYTES = 256 << 20  # all of them together


class Recorder:
    """Writes ``events.jsonl``, ``graphs/<hash>.pb`` and ``hlo/<hash>.txt`` of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started = time.perf_counter()
        self.pid = os.getpid()
        self._file = os.open(directory / "events.jsonl", os.O_RDWR | os.O_CREAT, 0o644)
        self._end = 0  # of what was written
        self._frames: dict[tuple[RawFrame, ...], int] = {}
        self._last_step: bytes | None = None
        self._repeat_at = 0
        self._repeats = 0
        self._events = 0
        self._steps = 0
        self._graphs: dict[str, str] = {}
        self._graph_bytes = 0
        self._bugs: set[str] = set()
        (directory / "graphs").mkdir(exist_ok=True)
        self.dump = directory / "dump"

    @property
    def alive(self) -> bool:
        """Whether this is the process that was started, and not a fork of it."""
        return os.getpid() == self.pid

    def seconds(self) -> float:
        return round(time.perf_counter() - self.started, 4)

    def emit(self, kind: str, **values: Any) -> None:
        if self.alive and self._events < MAX_EVENTS:
            self._events += 1
            self._last_step = None
            self._write(json.dumps({"e": kind, **values}, separators=(",", ":")).encode() + b"\n")

    def harmless(self, look: Callable[..., None], *args: Any) -> None:
        """Call ``look`` in such a way that a fault of ours never reaches the program; it is reported instead."""
        try:
            look(*args)
        except Exception:  # noqa: BLE001 (whatever it is, it is ours and not the program's)
            text = traceback.format_exc()
            if text not in self._bugs:
                self._bugs.add(text)
                self.emit("bug", traceback=text)

    def frames(self, frames: Sequence[RawFrame]) -> int:
        """The number under which these frames are stored."""
        key = tuple(frame for frame in frames if not is_ours(frame[0]))
        number = self._frames.get(key)
        if number is None:
            number = self._frames[key] = len(self._frames)
            self.emit("frames", id=number, frames=key)
        return number

    def step(self, values: dict[str, Any]) -> None:
        """A step; one like the last, once many are stored, is only counted."""
        self._steps += 1
        alike = json.dumps({k: v for k, v in values.items() if k not in ("t", "sent", "got")}).encode()
        if self._steps > STORED and alike == self._last_step and self.alive:
            self._repeats += 1
            os.pwrite(self._file, b"%09d" % self._repeats, self._repeat_at)
            return
        self.emit("step", **values)
        self._repeats = 1
        start = self._end
        self.emit("repeat", n="000000001")
        self._repeat_at = start + len('{"e":"repeat","n":"')
        self._last_step = alike

    def _write(self, data: bytes) -> None:
        try:
            self._end += os.pwrite(self._file, data, self._end)
        except OSError:  # a full disk must not end the program that is watched
            self._events = MAX_EVENTS

    def keep_graphs(self, hashes: Sequence[str]) -> None:
        """Move the graphs that XLA has just dumped to ``graphs/``, and delete everything else it dumped.

        ``hashes`` are torch_xla's, in the order of compilation, which is the order of the dump's module numbers.
        """
        if not self.alive or not self.dump.is_dir():
            return
        dumped = sorted(self.dump.glob("module_*.before_optimizations.hlo.pb"))
        if len(dumped) == len(hashes):
            for hash, path in zip(hashes, dumped):
                self._keep(hash, path)
        shutil.rmtree(self.dump, ignore_errors=True)
        self.dump.mkdir(exist_ok=True)

    def _keep(self, hash: str, path: Path) -> None:
        if hash in self._graphs or len(self._graphs) >= MAX_GRAPHS:
            return
        try:
            module = hlo.module_of_dump(path.read_bytes())
            if self._graph_bytes + len(module) > MAX_GRAPH_BYTES:
                return
            target = self.directory / "graphs" / f"{hash}.pb"
            partial = target.with_suffix(".partial")
            partial.write_bytes(module)
            partial.replace(target)
        except (OSError, ValueError):
            return
        self._graph_bytes += len(module)
        self._graphs[hash] = f"graphs/{hash}.pb"
        self.emit("hlo", hash=hash, path=self._graphs[hash])
        if len(module) <= text.SMALL or os.environ.get("XLA_SIM_DUMP_HLO"):
            text.keep(module, self.directory / "hlo" / f"{hash}.txt")
