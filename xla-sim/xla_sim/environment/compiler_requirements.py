"""What the TPU compiler's environment holds: the extra ``compiler`` of this package, and what this package needs beside it.

Its pyproject.toml is the one list. A vendored or editable copy reads the file, which is never older than the code; an
installed one reads the metadata that was made of it.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_EXTRA = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*["']compiler["']""")


def compiler_requirements() -> tuple[str, ...]:
    """The requirements, as pip takes them."""
    if _PYPROJECT.is_file():
        project = project_table(_PYPROJECT)
        return (*project["optional-dependencies"]["compiler"], *project["dependencies"])
    found = metadata.requires("xla-sim") or []
    ours = [line for line in found if _EXTRA.search(line) or "extra ==" not in line]
    return tuple(_EXTRA.sub("", line).rstrip("; ") for line in ours)


def project_table(pyproject: Path) -> dict[str, Any]:
    """The table [project] of a pyproject.toml; empty when there is no such file or it can't be read, which pip will tell."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = toml.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return {}
    return table
