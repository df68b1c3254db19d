"""Apply the rules to a Trace."""

from __future__ import annotations

from dataclasses import replace

from xla_sim.config import Config, filter_findings
from xla_sim.rules import all_rules
from xla_sim.trace import SEVERITIES, Finding, Trace


def judge(trace: Trace, config: Config | None = None) -> Trace:
    """The same trace with its findings, the gravest first; ignores are applied, the baseline is not."""
    config = config or Config()
    selected = config.names()
    findings: list[Finding] = [f for rule in all_rules() if rule.name in selected for f in rule.check(trace)]
    findings = filter_findings(findings, config)
    findings.sort(key=lambda f: (-SEVERITIES.index(f.severity), f.code, f.location.file, f.location.line))
    return replace(trace, findings=tuple(findings))
