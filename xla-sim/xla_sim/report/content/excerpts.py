"""The lines around a finding, read from the source when the report is rendered."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xla_sim.report.content.words import clean

AROUND = 3  # lines before and after
LARGEST = 2_000_000  # bytes of a source file that is opened
LONGEST = 200  # characters of a line that are shown


def excerpt(location: Mapping[str, Any], root: Path) -> list[tuple[int, str, bool]]:
    """Line number, text and whether it is the line itself; empty when the source isn't there.

    Only Python sources are opened, whatever the location says: a report can come from anywhere.
    """
    file, line = location.get("file") or "", location.get("line") or 0
    cell = re.fullmatch(r"In\[\d+\]", file) is not None  # of the notebook that asks: no file holds it
    if not line or not (cell or file.endswith(".py")) or "\0" in file:
        return []
    try:
        path = root / file
        if not cell and (not path.is_file() or path.stat().st_size > LARGEST):
            return []
        text = "".join(linecache.getlines(file)) if cell else path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
    except (OSError, ValueError):
        return []
    if line > len(lines):
        return []  # the source changed since
    first = max(1, line - AROUND)
    shown = lines[first - 1 : line + AROUND]
    return [(first + offset, _shown(text), first + offset == line) for offset, text in enumerate(shown)]


def _shown(text: str) -> str:
    text = clean(text.expandtabs(4).rstrip())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
