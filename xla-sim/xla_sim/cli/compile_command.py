"""``python -m xla_sim compile``: hand every captured graph to the TPU compiler and report what it says, chip by chip."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from xla_sim import hints
from xla_sim.cli import options
from xla_sim.cli.captured_graphs import InputError, captured, requests_for
from xla_sim.cli.options import CANNOT, FAILED, FINDINGS, OK, WRONG
from xla_sim.compiler.cache import Cache, default_directory
from xla_sim.compiler.chips import ChipError, Topology, find_chip, find_topology
from xla_sim.compiler.pool import TpuUnavailable
from xla_sim.compiler.results import CompileResult
from xla_sim.compiler.scheduler import DiskFull, Interrupted, Limits, compile_all
from xla_sim.config import Config, load_config, with_options
from xla_sim.report.progress import progress_bar
from xla_sim.rules.selection import FAIL_ON, ConfigError, fails


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``compile`` command; ``main`` is its default."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compile",
        help="hand the captured graphs to the TPU compiler: accepted or not, HBM, padding, a bound on step time",
        description="Compile every graph that `xla_sim run` captured with libtpu's compiler, which needs no TPU. "
        "jax and libtpu are taken from the Python that $XLA_SIM_TPU_PYTHON names, from this one, from .nox/tpu_compiler, or from an "
        "environment that is made once in $XLA_SIM_CACHE or ~/.cache/xla_sim.",
    )
    parser.add_argument("directory", type=Path, nargs="?", default=Path("reports/xla_sim"), metavar="DIR",
                        help="a run directory, or one graph (default: reports/xla_sim)")  # fmt: skip
    parser.add_argument(
        "--chips",
        type=options.words,
        metavar="NAMES",
        help="v4, v5e, v5p, v6e, v7x, by commas (default: chips of [tool.xla_sim], or v5e)",
    )
    parser.add_argument(
        "--topology",
        type=options.words,
        metavar="NAMES",
        help="slices instead of single chips, as v5e:2x4, for a program with shardings",
    )
    parser.add_argument("--graph", metavar="HASH", help="only the graph whose hash begins so")
    parser.add_argument("--max-graphs", type=options.positive, default=20, metavar="N",
                        help="compile the N graphs that ran most often (default: 20)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results' JSON to FILE")
    parser.add_argument(
        "--timeout", type=options.seconds, metavar="S", help="end a compilation after S seconds (default: 1800)"
    )
    parser.add_argument(
        "--memory",
        type=options.size,
        metavar="BYTES",
        help="end a compilation that takes more, as 8GiB (default: 85 %% of the machine)",
    )
    parser.add_argument(
        "--jobs", type=options.positive, default=2, metavar="N", help="compilations at a time (default: 2)"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="where results are kept (default: $XLA_SIM_CACHE or ~/.cache/xla_sim/compile)",
    )
    options.add_no_install(parser)
    parser.add_argument("--no-cache", action="store_true", help="compile again what is known")
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, help="exit with 1 at findings of this severity (default: warning)"
    )
    parser.set_defaults(main=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """The exit code: 0, 1 findings, 2 wrong command, 3 interrupted, 4 no TPU compiler here."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _compile(args, with_options(load_config(), fail_on=args.fail_on))
    except (ChipError, InputError, ConfigError) as error:
        print(f"xla_sim compile: {error}", file=sys.stderr)
        return WRONG
    except TpuUnavailable as error:
        print(f"xla_sim compile: {error}", file=sys.stderr)
        return CANNOT
    finally:
        signal.signal(signal.SIGTERM, previous)


def _compile(args: argparse.Namespace, config: Config) -> int:
    topologies = _topologies(args, config)
    graphs, left = captured(args.directory, args.graph, args.max_graphs)
    for sentence in left:
        print(f"xla_sim compile: {sentence}", file=sys.stderr)
    requests = requests_for(graphs, topologies, explicit=bool(args.topology))
    options.use_compiler(args)
    cache = None if args.no_cache else Cache(args.cache or default_directory())
    limits = Limits(args.timeout or config.timeout or 1800.0, args.memory)
    results: Sequence[CompileResult | None]
    stopped: tuple[int, str] | None = None
    logs = args.directory / "compile-logs" if args.directory.is_dir() else None
    try:
        with progress_bar(requests) as progress:
            results = compile_all(requests, limits, cache, args.jobs, progress, logs)
    except Interrupted as interrupted:
        results, stopped = interrupted.results, (FAILED, "interrupted")
    except DiskFull as full:
        results, stopped = full.results, (CANNOT, f"{full.filename}: {full.strerror}")
    except OSError as error:
        print(f"xla_sim compile: {error.filename or args.directory}: {error.strerror or error}", file=sys.stderr)
        return CANNOT
    if cache is not None and cache.problem:
        print(f"xla_sim compile: {cache.problem}", file=sys.stderr)
    finished = [result for result in results if result is not None]
    if stopped is None:
        return _tell(args, config, finished)
    if finished:
        _tell(args, config, finished)
    done = f"{len(finished)} of {len(requests)} compilations are done and kept"
    print(f"xla_sim compile: {stopped[1]}; {done}", file=sys.stderr)
    return stopped[0]


def _topologies(args: argparse.Namespace, config: Config) -> list[Topology]:
    if args.topology and args.chips:
        raise InputError("give --chips or --topology, not both: a topology names its chip")
    if args.topology:
        return [find_topology(name) for name in args.topology]
    return [find_topology(find_chip(name).one) for name in dict.fromkeys(args.chips or config.chips)]


def _tell(args: argparse.Namespace, config: Config, results: Sequence[CompileResult]) -> int:
    """Write compile.json and the reports beside it, print, and hand back the exit code."""
    from xla_sim.compiler.pool import probe
    from xla_sim.report.content.document import DocumentError, plain
    from xla_sim.report.publish import publish, show
    from xla_sim.rules.judging import judge_compiled, load_run

    directory = args.directory if args.directory.is_dir() else None
    findings = judge_compiled(results, load_run(directory), config.names())
    document: dict[str, Any] = plain(
        {
            "schema": 1,
            "kind": "compile",
            "compiler": probe(),
            "results": [result.to_json() for result in results if not result.narrowed],
            "findings": [finding.as_dict() for finding in findings],
        }
    )
    try:
        publish("compile", document, directory, args.json, hints.fit_next() if not findings else None)
    except DocumentError as error:
        print(f"xla_sim compile: {error}", file=sys.stderr)
        return WRONG
    except OSError as error:
        where = error.filename or directory or args.json
        show("compile", document)  # minutes of work that no file holds
        print(f"xla_sim compile: the report can't be written to {where}: {error.strerror or error}", file=sys.stderr)
        return CANNOT
    return FINDINGS if fails(findings, config.fail_on) else OK


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
