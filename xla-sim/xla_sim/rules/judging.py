"""Apply the rules: to the Trace of a run, and to what the TPU compiler said of its graphs. The one place that does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xla_sim.compiler.results import CompileResult
from xla_sim.rules.base import all_rules
from xla_sim.rules.selection import expand, filter_findings
from xla_sim.trace import SEVERITIES, Finding, Trace


@dataclass(frozen=True)
class RunReport:
    """What `check_compiled` is given of the run: its report.json, empty when there was no run."""

    findings: tuple[Mapping[str, Any], ...] = ()

    def of(self, rule: str) -> list[Mapping[str, Any]]:
        """The run's findings of one rule."""
        return [finding for finding in self.findings if finding.get("rule") == rule]


def load_run(directory: Path | None) -> RunReport:
    """The report beside the graphs; `captured_graphs` has refused one that can't be read."""
    path = directory / "report.json" if directory is not None else None
    if path is None or not path.is_file():
        return RunReport()
    return RunReport(tuple(json.loads(path.read_text(encoding="utf-8"))["findings"]))


def judge(trace: Trace, names: Collection[str] | None = None) -> Trace:
    """The same trace with its findings; ignores on the line are applied, the baseline is not.

    Args:
        names: of the rules that count; None: all.
    """
    chosen = expand("") if names is None else names
    found = (finding for rule in all_rules() if rule.name in chosen for finding in rule.check(trace))
    return replace(trace, findings=tuple(_in_order(filter_findings(found, chosen))))


def judge_compiled(
    results: Sequence[CompileResult], run: RunReport, names: Collection[str] | None = None
) -> list[Finding]:
    """The findings on compiled graphs: every rule's `check_compiled`, over the results and what the run before found."""
    chosen = expand("") if names is None else names
    found = (finding for rule in all_rules() for finding in rule.check_compiled(results, run))
    return _in_order(filter_findings(found, chosen))


def _in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first."""
    return sorted(
        findings, key=lambda one: (-SEVERITIES.index(one.severity), one.code, one.location.file, one.location.line)
    )
