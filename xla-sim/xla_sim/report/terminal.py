"""The report on the terminal: calm, one line a finding and one for its fix, readable in a pipe and at any width."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from xla_sim.report import chip_table as chips
from xla_sim.report.content import summary
from xla_sim.report.content.document import all_findings
from xla_sim.report.content.words import clean, place

Document = Mapping[str, Any]
STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
STATUS_STYLES = {"ok": "green", "oom": "red", "rejected": "red", "crashed": "red", "timeout": "yellow"}
NO_WRAP = 100_000  # columns of a console that is a pipe: grep wants whole lines
NARROW = 88  # columns below which a finding's message goes under its place
BAR = 16  # characters of an HBM bar
# for outputs that can't carry the characters on the left
PLAIN = {"·": "-", "×": "x", "█": "#", "▒": "=", "░": ".", "µ": "u", "…": "...", "–": "-", "→": "->"}


def print_report(
    document: Document, directory: Path | None = None, next_step: str | None = None, out: TextIO | None = None
) -> None:
    """Print on stdout, as wide and as colourful as it is."""
    stream = out or sys.stdout
    probe = Console(file=stream)
    width = probe.width if probe.is_terminal else None
    text = render(document, width, probe.color_system is not None and not probe.no_color, directory, next_step)
    print_text(text, stream)


def print_text(text: str, stream: TextIO) -> None:
    """Print text into a stream that may not know all of its characters."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeError:
        for char, plain in PLAIN.items():
            text = text.replace(char, plain)
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
    stream.flush()


def render(
    document: Document,
    width: int | None = None,
    color: bool = False,
    directory: Path | None = None,
    next_step: str | None = None,
) -> str:
    """The report as text.

    Args:
        width: columns of the terminal; None: no terminal, nothing is wrapped.
        directory: where the report's files are, to be named in the last line.
        next_step: the command to run next, to be named in the last line.
    """
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width or NO_WRAP,
        force_terminal=color,
        force_jupyter=False,  # in a notebook it would show the text there, beside writing it
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    _headline(console, document)
    _facts(console, document, width)
    if document.get("compile"):
        _chip_table(console, document, width)
    if document.get("fit"):
        _fit(console, document["fit"], width)
    _findings(console, document, width)
    _last_line(console, document, directory, next_step)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()] if not color else stream.getvalue().splitlines()
    return "\n".join(lines) + "\n"


def _print(console: Console, what: Any, indent: int = 2, below: int = 0) -> None:
    console.print(Padding(what, (0, 0, below, indent), expand=False))


def _headline(console: Console, document: Document) -> None:
    line = Text.assemble(("xla_sim", "bold"), (" · ", "dim"), (summary.title(document), "bold"))
    for part in summary.subtitle(document):
        line.append(" · ", "dim").append(part)
    console.print(line)
    console.print()


def _facts(console: Console, document: Document, width: int | None) -> None:
    facts = summary.facts(document)
    failed = summary.failure(document)
    if failed:
        sentence = f"{failed}; what was seen until then follows"
        facts = [summary.Fact("failed", sentence), *facts]
    if not facts:
        return
    table = Table.grid(padding=(0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for fact in facts:
        text = Text.assemble((fact.text, "bold red" if fact.label == "failed" else ""))
        if fact.note:
            column = min(48, (width or 120) - len("executed   ") - 2 - len(fact.note))
            gap = max(3, column - len(fact.text))
            text.append(" " * gap).append(fact.note, "yellow")
        table.add_row(Text(f"{fact.label:<11}", style="dim"), text)
    _print(console, table, below=1)


def _findings(console: Console, document: Document, width: int | None) -> None:
    found = list(all_findings(document))
    if not found:
        return
    heads = [(place(one["location"]), f"{clean(one['code'])} {clean(one['rule'])}", one["severity"]) for one in found]
    lengths = [max(len(head[column]) for head in heads) for column in range(3)]
    indent = 2 + sum(lengths) + 3 * len(lengths)
    if width and (width < NARROW or width - indent < 40):
        _stacked(console, heads, found)
    else:
        _in_columns(console, heads, found, width)
    console.print()


def _stacked(console: Console, heads: Sequence[tuple[str, str, str]], found: Sequence[Mapping[str, Any]]) -> None:
    """For narrow terminals: the place and the rule on lines of their own."""
    for number, ((where, rule, severity), finding) in enumerate(zip(heads, found)):
        if number:
            console.print()
        _print(console, Text(where, overflow="fold"))
        _print(console, Text.assemble((severity, STYLES[severity]), "  ", rule))
        _print(console, Text(_line(finding["message"]), overflow="fold"), 4)
        if finding["fix"]:
            _print(console, _fix(finding), 4)


def _in_columns(
    console: Console, heads: Sequence[tuple[str, str, str]], found: Sequence[Mapping[str, Any]], width: int | None
) -> None:
    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold", no_wrap=width is None)
    for head, finding in zip(heads, found):
        message = Text(_line(finding["message"]))
        if finding["fix"]:
            message.append("\n").append_text(_fix(finding))
        table.add_row(Text(head[0]), Text(head[1], style="bold"), Text(head[2], style=STYLES[head[2]]), message)
    _print(console, table)


def _fix(finding: Mapping[str, Any]) -> Text:
    return Text.assemble(("fix: ", "green"), _line(finding["fix"]), overflow="fold")


def _line(text: str) -> str:
    return " ".join(clean(text, keep="\n\t").split())


def _chip_table(console: Console, document: Document, width: int | None) -> None:
    rows = chips.rows(document)
    lines = [
        [Text(row.what), Text(row.chip), _verdict(row), _bar(row.hbm, width), row.padding, row.bound, row.busy]
        for row in rows
    ]
    _rows(console, ("graph", "chip", "verdict", "HBM", "padding", "takes at least", "MXU at best"), lines, width)
    for result, row in zip(document["compile"]["results"], rows):
        exchanged = chips.collectives(result)
        if exchanged:
            _print(console, Text(f"{row.what} on {row.chip} exchanges"))
            _print(console, Text("\n".join(exchanged)), 4, 1)


def _verdict(row: chips.Row | chips.SearchRow) -> Text:
    return Text(row.verdict, STATUS_STYLES[row.status])


def _rows(console: Console, headings: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None) -> None:
    """A table; on a narrow terminal one paragraph a row."""
    if width is not None and width < NARROW:
        for row in rows:
            second = f"{headings[1]} {row[1]}" if headings[1] == "batch" else str(row[1])
            first = Text(" ").join([Text(str(row[0]), "bold"), Text(second), row[2]])
            rest = [f"{heading} {cell}" for heading, cell in zip(headings[3:], row[3:]) if str(cell) != chips.NOTHING]
            _print(console, first.append("\n  " + "\n  ".join(rest)) if rest else first, below=1)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in headings:
        table.add_column(Text(heading, "dim"), no_wrap=width is None or heading != "HBM")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    _print(console, table, below=1)


def _bar(bar: chips.Bar | None, width: int | None) -> Text:
    """A bar whose full part is what the step needs; what lies beyond the chip is red."""
    if bar is None:
        return Text(chips.NOTHING)
    if width and width < NARROW:
        return Text(bar.text)
    full = max(1, round(BAR * sum(share for _, _, share in bar.parts)))
    chip = round(BAR * bar.capacity)
    text = Text.assemble("█" * min(full, chip), ("▒" * (full - chip), "red"), ("░" * (chip - full), "dim"))
    return text.append(f" {bar.text}", "red" if full > chip else "")


def _fit(console: Console, fit: Mapping[str, Any], width: int | None) -> None:
    _print(console, Text(chips.fit_sentence(fit), overflow="fold"), below=1)
    lines = [(label, size) for label, size, _ in chips.fit_parts(fit)]
    if fit.get("bound"):
        lines.append(("a step takes at least", chips.bound(fit["bound"])))
        lines.append(("MXU busy at best", chips.busy(fit["bound"])))
    lines.extend(("exchanges" if not number else "", line) for number, line in enumerate(chips.collectives(fit)))
    lines.extend(("note", clean(note)) for note in fit.get("notes") or ())
    if lines:
        table = Table.grid(padding=(0, 3, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for label, text in lines:
            table.add_row(Text(label), Text(text))
        _print(console, table, below=1)
    rows = chips.search_rows(fit)
    if rows:
        cells = [
            [Text(row.topology), Text(row.batch), _verdict(row), _bar(row.hbm, width), row.bound, row.busy]
            for row in rows
        ]
        _rows(console, ("topology", "batch", "verdict", "HBM", "a step takes at least", "MXU at best"), cells, width)
        if fit["search"].get("answer"):
            _print(console, Text(clean(fit["search"]["answer"]), overflow="fold"), below=1)


def _last_line(console: Console, document: Document, directory: Path | None, next_step: str | None) -> None:
    style = next((STYLES[severity] for severity, number in summary.counts(document).items() if number), "green")
    line = Text.assemble((summary.counted(document), style))
    if directory is not None:
        line.append(" · ", "dim").append(clean(directory / "report.html"))
    if next_step:
        line.append(" · ", "dim").append(f"next: {clean(next_step)}")
    console.print(line, soft_wrap=True)
