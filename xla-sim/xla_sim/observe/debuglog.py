"""Read what torch_xla writes to ``PT_XLA_DEBUG_FILE`` at ``PT_XLA_DEBUG_LEVEL=2``: every compilation and execution.

The same text in torch_xla 2.4 to 2.9. Frames are innermost first, at most ``PT_XLA_DEBUG_MAX_FRAME``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from xla_sim.observe.frames import RawFrame

_FRAME = re.compile(r"^(.*) \((.*):(\d+)\)$")
_END = "-" * 40


@dataclass(frozen=True)
class Record:
    compiled: bool  # a compilation; otherwise an execution
    cause: str  # as in trace.Execution
    hash: str
    inputs: int
    outputs: int
    frames: tuple[RawFrame, ...]


def cause_of(text: str) -> str:
    """The word of `trace.Execution.cause` for torch_xla's sentence."""
    text = text.lower()
    if "access tensor value" in text:
        return "read"
    if "parallel loader" in text:
        return "loader"
    if "dynamo" in text:
        return "dynamo"
    if "torch_xla.compile" in text or "torch_xla::compile" in text:
        return "compile"
    if "mark_step" in text or "torch_xla.sync" in text or "sync" in text:
        return "sync"
    return "unknown"


def parse(text: str) -> list[Record]:
    """The records in ``text``, in order; a torn last record is left out."""
    records: list[Record] = []
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        prefix = next((p for p in ("Compilation Analysis: ", "Execution Analysis: ") if lines[0].startswith(p)), None)
        if prefix is None or not any(_END in line and "=" not in line for line in lines):
            continue
        records.append(_record(prefix.startswith("Comp"), [line[len(prefix) :].strip() for line in lines]))
    return records


def _record(compiled: bool, lines: list[str]) -> Record:
    cause, hash, inputs, outputs = "unknown", "", 0, 0
    frames: list[RawFrame] = []
    for above, line in zip(["", *lines], lines):
        if above.endswith(" Cause"):
            cause = cause_of(line)
        elif line.startswith("Graph Hash:"):
            hash = line.split(":", 1)[1].strip()
        elif line.startswith("Number of Graph Inputs:"):
            inputs = int(line.rsplit(":", 1)[1])
        elif line.startswith("Number of Graph Outputs:"):
            outputs = int(line.rsplit(":", 1)[1])
        else:
            match = _FRAME.match(line)
            if match:
                frames.append((match[2], int(match[3]), match[1]))
    return Record(compiled, cause, hash, inputs, outputs, tuple(frames))


class Reader:
    """Reads what was appended since the last time, and keeps the file small.

    torch_xla opens the file anew for each record, so it can be emptied between two records.
    """

    def __init__(self, path: str, limit: int = 256 << 10) -> None:
        self.path = path
        self.offset = 0
        self.limit = limit  # bytes
        self._file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)

    def new(self) -> list[Record]:
        size = os.fstat(self._file).st_size - self.offset
        data = os.pread(self._file, size, self.offset) if size > 0 else b""
        if not data:
            return []
        whole = data.rfind(b"\n\n") + 2 if not data.endswith(b"=\n") else len(data)
        self.offset += whole
        if self.offset > self.limit and whole == len(data):
            os.truncate(self.path, 0)
            self.offset = 0
        return parse(data[:whole].decode("utf-8", "replace"))
