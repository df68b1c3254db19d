"""What the rules say about themselves: ``explain`` and ``rules`` on the terminal, and docs/rules.md.

To write docs/rules.md again after a rule changed: ``python -m xla_sim.report.rules_page docs/rules.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from xla_sim.report.terminal import NO_WRAP, STYLES, print_text

GROUPS = {
    "XLA1": "Steps and graphs",
    "XLA2": "Between host and device",
    "XLA3": "Training",
    "XLA4": "Numbers",
    "TPU5": "What the TPU compiler says",
}
LONGEST_LINE = 100  # columns of a page on the terminal: longer lines of prose are hard to read


def page(rule: Any, level: int = 1) -> str:
    """The rule's page in Markdown, under a heading of that level."""
    heading = f"{'#' * level} {rule.code} {rule.name}"
    usual = f"{rule.title().rstrip('.')}. Usually {_article(rule.severity)}."
    silence = f'**To silence it:** `# xla-sim: ignore[{rule.name}]` on the line, or `ignore = ["{rule.name}"]` under '
    silence += "`[tool.xla_sim]` in pyproject.toml."
    return "\n\n".join([heading, usual, rule.page().strip(), silence]) + "\n"


def _article(severity: str) -> str:
    return {"error": "an error", "warning": "a warning", "info": "a note"}[severity]


def rules_markdown(rules: Sequence[Any]) -> str:
    """docs/rules.md: a table of all rules, then a page each."""
    lines = [
        "# The rules",
        "",
        "What `python -m xla_sim` can say, and why a TPU cares. `python -m xla_sim explain NAME` prints one page of it.",
        "",
        "<!-- Made from the rules' docstrings by `python -m xla_sim.report.rules_page docs/rules.md`: change them there. -->",
        "",
        "| code | name | usually | says |",
        "|---|---|---|---|",
    ]
    for rule in rules:
        title = rule.title().replace("|", "\\|")
        lines.append(f"| [{rule.code}](#{anchor(rule)}) | {rule.name} | {_article(rule.severity)} | {title} |")
    blocks = ["\n".join(lines)]
    for prefix, heading in _groups(rules).items():
        blocks.append(f"## {heading}")
        blocks.extend(page(rule, 3).strip() for rule in rules if rule.code.startswith(prefix))
    return "\n\n".join(blocks) + "\n"


def _groups(rules: Sequence[Any]) -> dict[str, str]:
    prefixes = sorted({rule.code[:4] for rule in rules}, key=lambda prefix: (not prefix.startswith("XLA"), prefix))
    return {prefix: GROUPS.get(prefix, f"{prefix}xx") for prefix in prefixes}


def anchor(rule: Any) -> str:
    """The fragment that GitHub gives the rule's heading."""
    return re.sub(r"[^0-9a-z_ -]", "", f"{rule.code} {rule.name}".lower()).replace(" ", "-")


def print_rule(rule: Any, out: TextIO | None = None) -> None:
    """``explain``: the page, formatted on a terminal, as it was written in a pipe."""
    stream = out or sys.stdout
    console = Console(file=stream)
    if not console.is_terminal:
        print_text(page(rule), stream)
        return
    heading, _, rest = page(rule).partition("\n")
    console.print(Text(heading.lstrip("# "), style="bold underline"))
    console.print()
    console.print(Markdown(rest.strip(), code_theme="ansi_dark"), width=min(console.width, LONGEST_LINE))


def print_rules(rules: Sequence[Any], out: TextIO | None = None) -> None:
    """``rules``: one line a rule."""
    stream = out or sys.stdout
    probe = Console(file=stream)
    width = probe.width if probe.is_terminal else NO_WRAP
    color = probe.color_system is not None and not probe.no_color
    console = Console(width=width, force_terminal=color, no_color=not color, highlight=False, markup=False, emoji=False)
    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rule in rules:
        name, severity = Text(rule.name, style="bold"), Text(rule.severity, style=STYLES[rule.severity])
        table.add_row(Text(rule.code), name, severity, Text(rule.title()))
    with console.capture() as captured:
        console.print(table)
    print_text("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n", stream)


def main(argv: list[str] | None = None) -> int:
    """Write docs/rules.md."""
    from xla_sim.report.files import write_atomic
    from xla_sim.rules import all_rules

    arguments = sys.argv[1:] if argv is None else argv
    text = rules_markdown(all_rules())
    if arguments:
        write_atomic(Path(arguments[0]), text)
    else:
        print_text(text, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
