"""Which findings count: names, codes and their beginnings, as ruff users expect, and ignores on the line."""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Collection, Iterable

from xla_sim import hints
from xla_sim.rules.base import all_rules
from xla_sim.trace import SEVERITIES, Finding, Location

FAIL_ON = ("error", "warning", "never")
_INLINE = re.compile(r"#\s*xla-sim:\s*ignore(?:\[([^\]]*)\])?")


class ConfigError(Exception):
    """The command or the configuration is wrong; the message is a sentence for the user."""


def expand(selector: str) -> set[str]:
    """The names of the rules that a name, a code or the beginning of a code stands for.

    Raises:
        ConfigError: when it stands for none; the sentence suggests the nearest.
    """
    wanted = selector.strip()
    rules = all_rules()
    found = {rule.name for rule in rules if wanted == rule.name or rule.code.startswith(wanted.upper())}
    if found:
        return found
    known = [rule.name for rule in rules] + [rule.code for rule in rules]
    near = difflib.get_close_matches(wanted, known, 1, 0.4) or difflib.get_close_matches(wanted.upper(), known, 1, 0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"there is no rule {wanted!r}.{hint} `{hints.command()} rules` lists them.")


def filter_findings(findings: Iterable[Finding], names: Collection[str]) -> list[Finding]:
    """The findings of the rules of these names, without those that are ignored on their line.

    Raises:
        ConfigError: an inline ignore names a rule that doesn't exist.
    """
    return [f for f in findings if f.rule in names and f.rule not in ignored_on(f.location)]


def ignored_on(location: Location) -> set[str]:
    """The rules that ``# xla-sim: ignore[…]`` on that line silences; without brackets, all of them."""
    if not location.line:
        return set()
    match = _INLINE.search(linecache.getline(location.file, location.line))
    if match is None:
        return set()
    if match[1] is None:
        return expand("")
    try:
        return {name for selector in match[1].split(",") if selector.strip() for name in expand(selector)}
    except ConfigError as error:
        raise ConfigError(f"{location}: {error}") from error


def fails(findings: Iterable[Finding], fail_on: str) -> bool:
    """Whether a finding reaches the fail level."""
    if fail_on == "never":
        return False
    least = SEVERITIES.index(fail_on)
    return any(SEVERITIES.index(finding.severity) >= least for finding in findings)
