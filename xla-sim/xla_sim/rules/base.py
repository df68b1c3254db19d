"""What a rule is. To add one: a module in `run/` or `chip/` with a subclass of `Rule`, and its tests; nothing else.

The class docstring is the one-line title. The docstring of `check` is the page that ``explain`` prints and that
``docs/rules.md`` is made of, in Markdown with the headings **Why a TPU cares**, **Bad**, **Good**, **Source**.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, ClassVar

from xla_sim import hints
from xla_sim.trace import SEVERITIES, Finding, Location, Trace


class Rule:
    """One-line title."""

    code: ClassVar[str]  # "XLA201"
    name: ClassVar[str]  # "host-sync"
    severity: ClassVar[str]  # the usual one; a finding may be milder

    def check(self, trace: Trace) -> Iterable[Finding]:
        """The page that is shown to the user."""
        return ()

    def check_compiled(self, results: Any, trace: Any) -> Iterable[Finding]:
        """What the TPU compiler's results (``tpu.compiler``) say, for rules that judge those."""
        return ()

    def finding(
        self,
        message: str,
        fix: str,
        location: Location | None = None,
        severity: str | None = None,
        **evidence: Any,
    ) -> Finding:
        """A finding of this rule; evidence must be JSON values."""
        severity = severity or self.severity
        if severity not in SEVERITIES:
            raise ValueError(f"severity {severity!r} of {self.name} is none of {SEVERITIES}")
        return Finding(self.name, self.code, severity, message, fix, location or Location(), evidence)

    @classmethod
    def title(cls) -> str:
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def page(cls) -> str:
        """Markdown, without a heading."""
        return inspect.cleandoc(cls.check.__doc__ or "")


def times(count: int) -> str:
    """``once``, ``3 times``."""
    return "once" if count == 1 else f"{count} times"


def all_rules() -> list[Rule]:
    """One instance of each rule, by code."""
    found: list[Rule] = []
    pending = list(Rule.__subclasses__())
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if hasattr(cls, "code"):
            found.append(cls())
    return sorted(found, key=lambda rule: (not rule.code.startswith("XLA"), rule.code))


def find_rule(name_or_code: str) -> Rule:
    """The rule of that name or code.

    Raises:
        KeyError: with a sentence that suggests the nearest name.
    """
    rules = all_rules()
    wanted = name_or_code.strip()
    for rule in rules:
        if wanted.lower() in (rule.name, rule.code.lower()):
            return rule
    near = difflib.get_close_matches(wanted.lower(), [r.name for r in rules] + [r.code.lower() for r in rules], 1, 0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise KeyError(f"there is no rule {wanted!r}{hint} ({hints.command()} rules lists them)")
