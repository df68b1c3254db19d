"""``python -m xla_sim report DIR``: show again what a run directory holds, in any format."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

FORMATS = ("terminal", "json", "html", "github", "markdown", "sarif")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``report`` command; ``main`` is its default."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="show again what a run directory holds, in any format",
        description="Show again what run, compile and fit left in a directory. Exits with 0; it doesn't judge.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="where run, compile or fit wrote their files")
    parser.add_argument("--format", choices=FORMATS, default="terminal", help="default: terminal")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to the file instead of stdout")
    parser.set_defaults(main=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """0, or 2 when the directory holds no report or the output can't be written."""
    from xla_sim.report import print_terminal
    from xla_sim.report.document import DocumentError, load_directory
    from xla_sim.report.files import write_atomic
    from xla_sim.report.terminal import print_text

    directory: Path = args.directory
    try:
        document = load_directory(directory)
        if args.format == "terminal" and args.output is None:
            print_terminal(document, directory)
            return 0
        text = _render(args.format, document, directory)
        if args.output is not None:
            write_atomic(args.output, text)
        else:
            print_text(text, sys.stdout)
        return 0
    except DocumentError as error:
        print(f"xla_sim report: {error}", file=sys.stderr)
    except BrokenPipeError:  # `| head` took what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"xla_sim report: {args.output} can't be written: {error.strerror or error}", file=sys.stderr)
    return 2


def _render(format: str, document: Mapping[str, Any], directory: Path) -> str:
    from xla_sim.report import document as documents
    from xla_sim.report import github, html, markdown, sarif, terminal

    def with_rules(document: Mapping[str, Any]) -> str:
        from xla_sim.rules import all_rules

        return sarif.render(document, all_rules())

    renderers: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "terminal": lambda document: terminal.render(document, directory=directory),
        "json": documents.to_json,
        "html": html.render,
        "github": github.render,
        "markdown": markdown.render,
        "sarif": with_rules,
    }
    return renderers[format](document)
