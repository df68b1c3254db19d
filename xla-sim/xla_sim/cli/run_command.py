"""``xla-sim run``: run a program on XLA's CPU device under observation, and report what a TPU would punish."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xla_sim import hints
from xla_sim.cli import options
from xla_sim.cli.options import CANNOT, FAILED, FINDINGS, OK
from xla_sim.config import Config, load_config, with_options
from xla_sim.environment.torch_python import NoTorchXla
from xla_sim.rules.selection import FAIL_ON, ConfigError, fails
from xla_sim.trace import Trace


def add_parser(commands: Any) -> None:
    """Add the ``run`` command; ``main`` is its default."""
    run = commands.add_parser(
        "run",
        help="run a training program on XLA's CPU device and report what a TPU would punish",
        description="Run an unmodified program on XLA's CPU device under observation. Options of xla_sim come before "
        "the program, the program's own after it.",
        usage="%(prog)s [options] SCRIPT [ARGS…]\n       %(prog)s [options] -m MODULE [ARGS…]",
    )
    run.add_argument("--out", type=Path, metavar="DIR", default=Path("reports/xla_sim"),
                     help="where the files of the run go (default: reports/xla_sim)")  # fmt: skip
    run.add_argument("--json", type=Path, metavar="FILE", help="also write the report's JSON to FILE")
    run.add_argument("--fail-on", choices=FAIL_ON, help="exit with 1 at findings of this severity (default: warning)")
    run.add_argument(
        "--select", type=options.words, metavar="RULES", help="only these rules: names, codes or XLA2, by commas"
    )
    run.add_argument("--ignore", type=options.words, metavar="RULES", help="not these rules")
    run.add_argument("--warmup-steps", type=options.whole, metavar="N", help="steps that may compile (default: 2)")
    run.add_argument("--timeout", type=options.seconds, metavar="S", help="stop the program after S seconds")
    run.add_argument("--baseline", metavar="FILE", help="findings that FILE knows don't count")
    run.add_argument("--write-baseline", metavar="FILE", help="write today's findings to FILE and exit with 0")
    run.add_argument("--compare-eager", action="store_true",
                     help="repeat the first training step's forward pass in eager PyTorch and compare module by module")  # fmt: skip
    run.add_argument("--dump-hlo", action="store_true",
                     help="write every captured graph as HLO text into hlo/ of the run directory, however large")  # fmt: skip
    options.add_python(run)
    run.add_argument("--quiet", "-q", action="store_true", help="print no report, and no live line while it runs")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGS…]", help="the program, or -m MODULE")
    run.set_defaults(main=main)


def protect_module(words: list[str]) -> list[str]:
    """Keep argparse from reading ``-m MODULE …`` of ``run`` as options of ours."""
    if words[:1] != ["run"] or "-m" not in words:
        return words
    position = words.index("-m")
    before = words[1:position]
    options_with_value = {"--out", "--json", "--fail-on", "--select", "--ignore", "--warmup-steps", "--timeout",
                          "--baseline", "--write-baseline", "--python"}  # fmt: skip
    positional = [
        w for w, last in zip(before, ["", *before]) if not w.startswith("-") and last not in options_with_value
    ]
    return words if positional or "--" in before else [*words[:position], "--", *words[position:]]


def main(args: argparse.Namespace) -> int:
    """The exit code."""
    from xla_sim.observe.supervise import CannotRun, supervise_script
    from xla_sim.report.content import origin
    from xla_sim.report.live import live_line
    from xla_sim.rules.judging import judge

    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    config = with_options(
        load_config(),
        fail_on=args.fail_on,
        select=args.select,
        ignore=args.ignore,
        warmup_steps=args.warmup_steps,
        timeout=args.timeout,
        baseline=args.baseline,
    )
    _check_program(program)
    made_of = {"hash": None, "files": 0, **origin.repository(_folder(program))}
    about = {"made_at": origin.now(), "made_of": made_of, "command": _command(args, program)}
    threading.Thread(target=_prepare, daemon=True).start()
    try:
        python = options.torch_python(args).path
        with live_line(args.out, args.quiet) as progress:
            trace = supervise_script(
                program,
                args.out,
                config.timeout,
                config.warmup_steps,
                args.compare_eager,
                progress=progress,
                dump_hlo=args.dump_hlo,
                python=python,
            )
    except (CannotRun, NoTorchXla) as error:
        print(f"xla_sim run: {error}", file=sys.stderr)
        return CANNOT
    _title_texts(trace, args)
    return _tell(judge(trace, config.names()), config, args, about)


def _folder(program: Sequence[str]) -> Path:
    """Where the program's repository is looked for."""
    return Path.cwd() if program[0] == "-m" else Path(program[0]).resolve().parent


def _command(args: argparse.Namespace, program: Sequence[str]) -> str:
    """What repeats this run: the options that were given, and the program's own words."""
    words = [*shlex.split(hints.command()), "run", "--out", str(args.out)]
    for name in ("fail_on", "select", "ignore", "warmup_steps", "timeout", "baseline", "python"):
        value = getattr(args, name)
        if value is not None:
            told = ",".join(value) if isinstance(value, (list, tuple)) else f"{value:g}" if name == "timeout" else value
            words += [f"--{name.replace('_', '-')}", str(told)]
    words += [f"--{name.replace('_', '-')}" for name in ("compare_eager", "dump_hlo") if getattr(args, name)]
    return shlex.join([*words, *program])


def _title_texts(trace: Trace, args: argparse.Namespace) -> None:
    """Say above each graph's text when and where it was made, and where the texts are when they were asked for."""
    from xla_sim.hlo import text

    written = [graph for graph in trace.graphs if (trace.directory / "hlo" / f"{graph.hash}.txt").is_file()]
    for graph in written:
        made = f"graph {graph.hash}, first compiled at step {graph.first_step}, at {graph.location} ({graph.cause})"
        text.add_header(trace.directory / "hlo" / f"{graph.hash}.txt", made)
    if not args.dump_hlo or args.quiet:
        return
    number = f"{len(written)} of {_count(len(trace.graphs), 'graph')} as HLO text"
    where = f": {args.out / 'hlo'}" if written else ""
    print(f"xla_sim: {number}{where}", file=sys.stderr)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"


def _prepare() -> None:
    """Import what the report needs while the program runs; if that fails, the report itself will say so."""
    from xla_sim.report import prepare

    with contextlib.suppress(Exception):
        prepare()


def _check_program(program: Sequence[str]) -> None:
    """
    Raises:
        ConfigError: there is no such program.
    """
    if not program:
        raise ConfigError(f"run needs a program: {hints.command()} run SCRIPT [ARGS…], or run -m MODULE [ARGS…].")
    if program[0] == "-m":
        if len(program) < 2:
            raise ConfigError(f"-m needs a module: {hints.command()} run -m package.train.")
        return
    if program[0].startswith("-"):
        raise ConfigError(f"run has no option {program[0]!r}. See `{hints.command()} run --help`.")
    path = Path(program[0])
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a Python script, or a module with -m.")
    if not path.is_file():
        raise ConfigError(f"there is no file {path} (looked in {Path.cwd()}).")


def _tell(trace: Trace, config: Config, args: argparse.Namespace, about: dict[str, Any]) -> int:
    from xla_sim.report.baseline import without_known, write_baseline
    from xla_sim.report.content import origin
    from xla_sim.report.content.document import to_document
    from xla_sim.report.publish import publish

    findings = list(trace.findings)
    if args.write_baseline:
        write_baseline(Path(args.write_baseline), findings)
        known = f"{_count(len(findings), 'finding')} {'is' if len(findings) == 1 else 'are'} known from now on"
        print(f"{known}: {args.write_baseline}")
    hidden = None
    if config.baseline and not args.write_baseline:
        fresh = without_known(Path(config.baseline), findings)
        hidden, findings = {"file": config.baseline, "known": len(findings) - len(fresh)}, fresh
    next_step = None if trace.exit else hints.compile_next(args.out)
    about["made_of"].update(origin.content([*trace.sources, *_script(trace)]))
    document = to_document(trace, findings, hidden, {**about, "next": next_step})
    try:
        publish("report", document, args.out, args.json, next_step, args.quiet)
    except OSError as error:
        print(f"xla_sim run: the report can't be written to {args.out}: {error.strerror or error}.", file=sys.stderr)
        return CANNOT
    if trace.exit != 0:
        return FAILED
    return FINDINGS if not args.write_baseline and fails(findings, config.fail_on) else OK


def _script(trace: Trace) -> tuple[str, ...]:
    """The one file that is known of a program that was killed, or that went to another folder."""
    return () if trace.argv[0] == "-m" else trace.argv[:1]
