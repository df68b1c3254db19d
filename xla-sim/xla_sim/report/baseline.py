"""The baseline: findings that a project knows and lives with, so that only new ones count."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from pathlib import Path

from xla_sim.report.files import write_atomic
from xla_sim.rules.selection import ConfigError
from xla_sim.trace import Finding


def fingerprint(finding: Finding) -> str:
    """What a finding is known by: rule, file and the text of the line, so that code may move."""
    code = linecache.getline(finding.location.file, finding.location.line).strip() if finding.location.line else ""
    return f"{finding.rule}\t{finding.location.file}\t{code}"


def write_baseline(path: Path, findings: Sequence[Finding]) -> None:
    """Write the findings of today as known."""
    known = sorted(fingerprint(finding) for finding in findings)
    write_atomic(path, json.dumps({"schema": 1, "known": known}, indent=1) + "\n")


def without_known(path: Path, findings: Sequence[Finding]) -> list[Finding]:
    """The findings that the baseline doesn't hold; each entry covers one finding.

    Raises:
        ConfigError: the file is missing or is no baseline.
    """
    try:
        known = list(json.loads(path.read_text(encoding="utf-8"))["known"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the baseline {path} can't be read ({error}); write it with `python -m xla_sim run --write-baseline FILE …`."
        ) from error
    new = []
    for finding in findings:
        key = fingerprint(finding)
        if key in known:
            known.remove(key)
        else:
            new.append(finding)
    return new
