"""``python -m xla_sim report DIR``: show again what a run directory holds, in any format."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xla_sim import hints

FORMATS = ("terminal", "json", "html", "github", "markdown", "sarif")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``report`` command; ``main`` is its default."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="show again what a run directory holds, in any format",
        description="Show again what run, compile and fit left in a directory, and exit with 0: it doesn't judge. "
        "With --compare, say whether one run did what another one promised.",
    )
    parser.add_argument(
        "directory", type=Path, nargs="?", metavar="DIR", help="where run, compile or fit wrote their files"
    )
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("PROMISED", "SEEN"),
                        help="compare two run directories, as laptop/ and tpu/; exits with 1 when a promise is broken")  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, default="terminal", help="default: terminal")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to the file instead of stdout")
    parser.set_defaults(main=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """0; 1 when a comparison broke a promise; 2 when there is no report or the output can't be written."""
    from xla_sim.report.content.document import DocumentError

    try:
        return _compare(args) if args.compare else _report(args)
    except DocumentError as error:
        print(f"xla_sim report: {error}", file=sys.stderr)
    except BrokenPipeError:  # `| head` took what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"xla_sim report: {args.output} can't be written: {error.strerror or error}", file=sys.stderr)
    return 2


def _report(args: argparse.Namespace) -> int:
    from xla_sim.report import print_terminal
    from xla_sim.report.content.document import DocumentError, load_directory

    if args.directory is None:
        raise DocumentError("name a run directory, as reports/xla_sim, or two with --compare")
    document = load_directory(args.directory)
    if args.format == "terminal" and args.output is None:
        print_terminal(document, args.directory)
    else:
        _put(_render(args.format, document, args.directory), args.output)
    return 0


def _put(text: str, output: Path | None) -> None:
    from xla_sim.report.files import write_atomic
    from xla_sim.report.terminal import print_text

    if output is not None:
        write_atomic(output, text)
    else:
        print_text(text, sys.stdout)


def _compare(args: argparse.Namespace) -> int:
    from rich.console import Console

    from xla_sim.report import compare
    from xla_sim.report.content.document import DocumentError, load_directory, to_json

    if args.directory is not None or args.format not in ("terminal", "json"):
        raise DocumentError("--compare takes two directories and nothing else, with --format terminal or json")
    documents = [load_directory(directory) for directory in args.compare]
    for directory, document in zip(args.compare, documents):
        if document["program"] is None:
            raise DocumentError(
                f"{directory} holds no run to compare: make one with {hints.command()} run --out {directory} SCRIPT"
            )
    lines = compare.compare(*documents)
    if args.format == "json":
        _put(to_json(compare.as_json(lines)), args.output)
    else:
        console = Console()
        terminal = console.is_terminal and args.output is None
        names = (str(args.compare[0]), str(args.compare[1]))
        color = terminal and not console.no_color
        _put(compare.render(lines, names, console.width if terminal else None, color), args.output)
    return int(compare.broken(lines))


def _render(format: str, document: Mapping[str, Any], directory: Path) -> str:
    from xla_sim.report import github, html, markdown, sarif, terminal
    from xla_sim.report.content import document as documents

    def with_rules(document: Mapping[str, Any]) -> str:
        from xla_sim.rules import all_rules

        return sarif.render(document, all_rules())

    renderers: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "terminal": lambda document: terminal.render(document, directory=directory),
        "json": documents.to_json,
        "html": lambda document: html.render(document, directory=directory),
        "github": github.render,
        "markdown": markdown.render,
        "sarif": with_rules,
    }
    return renderers[format](document)
