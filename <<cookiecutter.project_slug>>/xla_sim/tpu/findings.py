"""From results to findings: every rule's `check_compiled`, over the results and what the run before found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..rules import all_rules
from ..trace import SEVERITIES, Finding
from .results import CompileResult


@dataclass(frozen=True)
class RunReport:
    """What `check_compiled` is given of the run: its report.json, empty when there was no run."""

    findings: tuple[Mapping[str, Any], ...] = ()

    def of(self, rule: str) -> list[Mapping[str, Any]]:
        """The run's findings of one rule."""
        return [finding for finding in self.findings if finding.get("rule") == rule]


def load_run(directory: Path | None) -> RunReport:
    """The report beside the graphs; `inputs.captured` has refused one that can't be read."""
    path = directory / "report.json" if directory is not None else None
    if path is None or not path.is_file():
        return RunReport()
    return RunReport(tuple(json.loads(path.read_text(encoding="utf-8"))["findings"]))


def judge(results: Sequence[CompileResult], run: RunReport) -> list[Finding]:
    """The findings, the gravest first."""
    found = [finding for rule in all_rules() for finding in rule.check_compiled(results, run)]
    return sorted(
        found, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.location.file, one.location.line)
    )
