"""summary.md: the report for GitHub's job summary, or any other place that shows Markdown with tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from xla_sim.report import chip_table as chips
from xla_sim.report.content import summary
from xla_sim.report.content.document import all_findings
from xla_sim.report.content.words import clean, place, spans

Document = Mapping[str, Any]
MOST_FINDINGS = 50  # GitHub refuses job summaries above 1 MiB; the other findings are in report.html
MARKS = {"error": "❌", "warning": "⚠️", "info": "ℹ️"}
STATUS_MARKS = {"ok": "✅", "oom": "❌", "rejected": "❌", "crashed": "❌", "timeout": "⚠️"}
_SPECIAL = re.compile(r"([\\`*\[\]#|<>~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z]))")


def render(document: Document) -> str:
    """The summary, from the verdict down."""
    blocks = [f"## xla_sim: {text(summary.title(document))}", f"**{text(summary.verdict(document))}**"]
    blocks.append(_facts(document))
    blocks.append(_findings(document))
    blocks.append(_chip_table(document))
    blocks.append(_fit(document))
    return "\n\n".join(block for block in blocks if block) + "\n"


def text(value: Any) -> str:
    """Plain text on one line that means the same in Markdown: nothing becomes a tag, a link, a mention or a cell."""
    return _escaped(" ".join(clean(value, keep="\n\t").split()))


def _escaped(line: str) -> str:
    return _SPECIAL.sub(r"\\\1", line)


def prose(value: str) -> str:
    """Text in which what stands between backticks is code."""
    line = " ".join(clean(value, keep="\n\t").split())
    return "".join(code(piece) if is_code else _escaped(piece) for piece, is_code in spans(line))


def code(value: Any) -> str:
    """The text as inline code, fenced by more backticks than it holds; pipes are escaped for tables."""
    line = " ".join(clean(value, keep="\n\t").split())
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    fence = "`" * (longest + 1)
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", "\\|") if line else ""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _facts(document: Document) -> str:
    lines: list[Sequence[str]] = [
        [text(fact.label), text(fact.text + (f" ({fact.note})" if fact.note else ""))]
        for fact in summary.facts(document)
    ]
    stack = document.get("stack") or {}
    if stack:
        lines.append(["stack", text(", ".join(f"{name} {version}" for name, version in stack.items() if version))])
    return table(["", ""], lines) if lines else ""


def _findings(document: Document) -> str:
    found = list(all_findings(document))
    if not found:
        return ""
    rows = [
        [
            f"{MARKS[one['severity']]} {one['severity']}",
            code(place(one["location"])),
            f"{text(one['code'])} {text(one['rule'])}",
            prose(one["message"]) + (f"<br>**fix:** {prose(one['fix'])}" if one["fix"] else ""),
        ]
        for one in found[:MOST_FINDINGS]
    ]
    block = "### Findings\n\n" + table(["", "where", "rule", "what"], rows)
    left = len(found) - MOST_FINDINGS
    return block + (f"\n\n{left:,} more are in report.html." if left > 0 else "")


def _chip_table(document: Document) -> str:
    rows = [
        [
            code(row.what),
            text(row.chip),
            f"{STATUS_MARKS[row.status]} {row.verdict}",
            text(row.hbm.text if row.hbm else chips.NOTHING),
            row.padding,
            row.bound,
            row.busy,
        ]
        for row in chips.rows(document)
    ]
    if not rows:
        return ""
    headings = ["graph", "chip", "verdict", "HBM", "padding", "takes at least", "MXU busy at best"]
    block = "### On the chips\n\n" + table(headings, rows)
    for result, row in zip(document["compile"]["results"], chips.rows(document)):
        exchanged = chips.collectives(result)
        if exchanged:
            lines = "\n".join(f"- {text(line)}" for line in exchanged)
            block += f"\n\n{code(row.what)} on {text(row.chip)} exchanges\n\n{lines}"
    return block


def _fit(document: Document) -> str:
    fit = document.get("fit")
    if not fit:
        return ""
    blocks = [f"### Fit: {text(fit['target'])}", text(chips.fit_sentence(fit))]
    parts = [[text(label), size, expected] for label, size, expected in chips.fit_parts(fit)]
    if parts:
        blocks.append(table(["a chip holds", "", "by arithmetic"], parts))
    blocks.append("\n".join(f"- {text(line)}" for line in chips.collectives(fit)))
    blocks.append("\n".join(f"- {text(note)}" for note in fit.get("notes") or ()))
    rows = [
        [
            text(row.topology),
            row.batch,
            f"{STATUS_MARKS[row.status]} {row.verdict}",
            text(row.hbm.text if row.hbm else chips.NOTHING),
            row.bound,
        ]
        for row in chips.search_rows(fit)
    ]
    if rows:
        blocks.append(table(["topology", "batch", "verdict", "HBM", "a step takes at least"], rows))
        blocks.append(text(fit["search"].get("answer") or ""))
    return "\n\n".join(block for block in blocks if block)
