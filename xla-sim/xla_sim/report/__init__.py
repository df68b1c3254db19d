"""What the user reads: a renderer a file, each a pure function over the report document. Renderers never judge.

Nothing here imports torch, and rich and jinja2 are imported by the renderers that need them, when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPORT_FILES = ("report.json", "summary.md", "report.html")


def write_reports(directory: Path, document: Mapping[str, Any], next_step: str | None = None) -> None:
    """Write ``report.json``, ``summary.md`` and ``report.html`` into the directory, each whole or not at all.

    Args:
        next_step: the command that the page names as the next one.
    """
    from xla_sim.report.content.document import to_json
    from xla_sim.report.files import write_atomic
    from xla_sim.report.html import render as render_html
    from xla_sim.report.markdown import render as render_markdown

    write_atomic(directory / "report.json", to_json(document))
    write_atomic(directory / "summary.md", render_markdown(document))
    write_atomic(directory / "report.html", render_html(document, directory=directory, next_step=next_step))


def print_terminal(document: Mapping[str, Any], directory: Path | None = None, next_step: str | None = None) -> None:
    """Print the report on stdout: for the terminal's width and colours, or as plain unwrapped lines into a pipe."""
    from xla_sim.report.terminal import print_report

    print_report(document, directory, next_step)


def prepare() -> None:
    """Import what the renderers need and compile the page's template: for a process that waits for a program anyway."""
    from xla_sim import rules  # noqa: F401
    from xla_sim.report import files, html, markdown, terminal  # noqa: F401

    html.template()
