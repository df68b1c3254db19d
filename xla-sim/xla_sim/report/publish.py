"""Write a document and print it: the one place that does, for every command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xla_sim.report import print_terminal, write_reports
from xla_sim.report.content.document import empty, load_directory, to_json
from xla_sim.report.files import write_atomic


def publish(
    kind: str,
    document: Mapping[str, Any],
    directory: Path | None,
    copy: Path | None = None,
    next_step: str | None = None,
    quiet: bool = False,
) -> None:
    """Write what a command found beside what the directory holds, render all of it, and print it.

    Args:
        kind: "report", "compile" or "fit": the name of its file.
        directory: of the run; None: print alone.
        copy: one more file for the document.
        next_step: the command to name as the next one.

    Raises:
        OSError: a file can't be written.
        DocumentError: what the directory holds can't be read.
    """
    if copy is not None and (directory is None or copy.resolve() != (directory / f"{kind}.json").resolve()):
        write_atomic(copy, to_json(document))
    if directory is None:
        show(kind, document, next_step)
        return
    whole = document
    if kind != "report":
        write_atomic(directory / f"{kind}.json", to_json(document))
        whole = load_directory(directory)
    write_reports(directory, whole, next_step)
    if not quiet:
        print_terminal(whole, directory, next_step)


def show(kind: str, document: Mapping[str, Any], next_step: str | None = None) -> None:
    """Print what no directory holds."""
    print_terminal(document if kind == "report" else {**empty(), kind: document}, None, next_step)
