"""`explain`, `rules` and docs/rules.md: three views of the rules' own docstrings."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from xla_sim.report import rules_page
from xla_sim.rules import all_rules

TEMPLATE = Path(__file__).parents[2] / "xla-sim"
RULE = SimpleNamespace(
    code="XLA201",
    name="host-sync",
    severity="warning",
    title=lambda: "A value was read inside a step.",
    page=lambda: (
        "It waits.\n\n**Why a TPU cares.** It idles [red]so[/red].\n\n**Bad**\n\n```python\nloss.item()\n```\n\n"
        "**Good**\n\n```python\nlosses.append(loss)\n```\n\n**Source.** The record."
    ),
)
PAGE = """\
# XLA201 host-sync

A value was read inside a step. Usually a warning.

It waits.

**Why a TPU cares.** It idles [red]so[/red].

**Bad**

```python
loss.item()
```

**Good**

```python
losses.append(loss)
```

**Source.** The record.

**To silence it:** `# xla-sim: ignore[host-sync]` on the line, or `ignore = ["host-sync"]` under `[tool.xla_sim]` in \
pyproject.toml.
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_page_in_a_pipe_is_its_markdown() -> None:
    out = io.StringIO()
    rules_page.print_rule(RULE, out)
    assert out.getvalue() == PAGE


def test_the_page_on_a_terminal_is_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    rules_page.print_rule(RULE, out)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert out.getvalue() != text, "a terminal gets its formatting"
    assert "**" not in text and "```" not in text
    assert [line.strip() for line in text.splitlines() if "item()" in line or "idles" in line] == [
        "Why a TPU cares. It idles [red]so[/red].",
        "loss.item()",
    ]
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 60


def test_the_list_in_a_pipe() -> None:
    out = io.StringIO()
    other = SimpleNamespace(**{**vars(RULE), "code": "XLA103", "name": "never-on-xla", "severity": "error"})
    rules_page.print_rules([other, RULE], out)
    assert out.getvalue() == (
        "XLA103   never-on-xla   error     A value was read inside a step.\n"
        "XLA201   host-sync      warning   A value was read inside a step.\n"
    )


def test_docs_rules_md_has_not_drifted() -> None:
    """To write it again: python -m xla_sim.report.rules_page docs/rules.md, in xla-sim/."""
    assert (TEMPLATE / "docs" / "rules.md").read_text() == rules_page.rules_markdown(all_rules())


def test_docs_rules_md_links_lead_to_its_headings() -> None:
    """GitHub's rule for a heading's fragment: lower case, punctuation gone, blanks become hyphens."""
    text = rules_page.rules_markdown(all_rules())
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    fragments = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    links = re.findall(r"\]\(#(.+?)\)", text)
    assert len(links) == len(all_rules())
    assert set(links) <= set(fragments)
    assert len(fragments) == len(set(fragments))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_every_rule_has_a_whole_page(rule: object) -> None:
    page = rules_page.page(rule)
    for heading in ("**Why a TPU cares", "**Bad", "**Good", "**Source", "**To silence it:**"):
        assert heading in page, f"the docstring of check() has no {heading}"
    assert page.count("```python") + page.count("```toml") + page.count("```\n") >= 2
    assert page.count("```") % 2 == 0
    Console(file=io.StringIO(), width=100).print(rules_page.Markdown(page))


def test_the_generator_writes_the_file(tmp_path: Path) -> None:
    assert rules_page.main([str(tmp_path / "docs" / "rules.md")]) == 0
    assert (tmp_path / "docs" / "rules.md").read_text() == rules_page.rules_markdown(all_rules())
