"""``python -m xla_sim``: run, compile, fit, report, rules, explain.

Exit codes: 0 nothing at or above the fail level; 1 findings; 2 the command or the configuration was wrong; 3 the program
itself failed, was stopped or was interrupted; 4 this environment can't run it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from xla_sim import argtypes
from xla_sim.config import FAIL_ON, Config, ConfigError, fails, load_config, with_options, without_known, write_baseline
from xla_sim.trace import Trace

OK, FINDINGS, WRONG, FAILED, CANNOT = range(5)

_EPILOG = """\
exit codes: 0 nothing at or above the fail level · 1 findings · 2 the command was wrong ·
            3 the program itself failed · 4 this environment can't run it

examples:
  python -m xla_sim run src/toy/train.py --steps 20    what would a TPU punish?
  python -m xla_sim compile reports/xla_sim            what does the TPU compiler say?
  python -m xla_sim explain host-sync                  what does it mean, and what to do?
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}. See `{self.prog} --help`.", file=sys.stderr)
        sys.exit(WRONG)


def parser() -> argparse.ArgumentParser:
    main = _Parser(
        prog="python -m xla_sim",
        description="Tell, with no TPU in sight, what a TPU would say to a PyTorch/XLA training program.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_run(commands)
    _add_others(commands)
    rules = commands.add_parser("rules", help="list the rules")
    rules.set_defaults(main=_rules)
    explain = commands.add_parser("explain", help="print a rule's page: what it means and what to do")
    explain.add_argument("rule", metavar="NAME-OR-CODE", help="host-sync, or XLA201")
    explain.set_defaults(main=_explain)
    return main


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a training program on XLA's CPU device and report what a TPU would punish",
        description="Run an unmodified program on XLA's CPU device under observation. Options of xla_sim come before "
        "the program, the program's own after it.",
        usage="python -m xla_sim run [options] SCRIPT [ARGS…]\n       python -m xla_sim run [options] -m MODULE [ARGS…]",
    )
    run.add_argument("--out", type=Path, metavar="DIR", default=Path("reports/xla_sim"),
                     help="where the files of the run go (default: reports/xla_sim)")  # fmt: skip
    run.add_argument("--json", type=Path, metavar="FILE", help="also write the report's JSON to FILE")
    run.add_argument("--fail-on", choices=FAIL_ON, help="exit with 1 at findings of this severity (default: warning)")
    run.add_argument("--select", type=_names, metavar="RULES", help="only these rules: names, codes or XLA2, by commas")
    run.add_argument("--ignore", type=_names, metavar="RULES", help="not these rules")
    run.add_argument("--warmup-steps", type=argtypes.whole, metavar="N", help="steps that may compile (default: 2)")
    run.add_argument("--timeout", type=argtypes.seconds, metavar="S", help="stop the program after S seconds")
    run.add_argument("--baseline", metavar="FILE", help="findings that FILE knows don't count")
    run.add_argument("--write-baseline", metavar="FILE", help="write today's findings to FILE and exit with 0")
    run.add_argument("--compare-eager", action="store_true",
                     help="repeat the first training step's forward pass in eager PyTorch and compare module by module")  # fmt: skip
    run.add_argument("--quiet", "-q", action="store_true", help="print no report")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGS…]", help="the program, or -m MODULE")
    run.set_defaults(main=_run)


def _add_others(commands: Any) -> None:
    """The commands of the other stages; each brings its own parser."""
    from xla_sim.report import cli as report_cli
    from xla_sim.tpu import cli as compile_cli
    from xla_sim.tpu import fit_cli

    for module in (compile_cli, fit_cli, report_cli):
        module.add_parser(commands)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = parser().parse_args(_protect_module(words))
        return int(args.main(args))
    except ConfigError as error:
        print(f"xla_sim: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # `| head` took what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("xla_sim: interrupted.", file=sys.stderr)
        return FAILED


def _protect_module(words: list[str]) -> list[str]:
    """Keep argparse from reading ``-m MODULE …`` of ``run`` as options of ours."""
    if words[:1] != ["run"] or "-m" not in words:
        return words
    position = words.index("-m")
    before = words[1:position]
    options_with_value = {"--out", "--json", "--fail-on", "--select", "--ignore", "--warmup-steps", "--timeout",
                          "--baseline", "--write-baseline"}  # fmt: skip
    positional = [
        w for w, last in zip(before, ["", *before]) if not w.startswith("-") and last not in options_with_value
    ]
    return words if positional or "--" in before else [*words[:position], "--", *words[position:]]


def _run(args: argparse.Namespace) -> int:
    from xla_sim.judge import judge
    from xla_sim.program import CannotRun, supervise_script

    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    config = with_options(
        load_config(),
        fail_on=args.fail_on,
        select=args.select and tuple(args.select),
        ignore=args.ignore and tuple(args.ignore),
        warmup_steps=args.warmup_steps,
        timeout=args.timeout,
        baseline=args.baseline,
    )
    _check_program(program)
    threading.Thread(target=_prepare, daemon=True).start()
    try:
        trace = supervise_script(program, args.out, config.timeout, config.warmup_steps, args.compare_eager)
    except CannotRun as error:
        print(f"xla_sim run: {error}", file=sys.stderr)
        return CANNOT
    return _report(judge(trace, config), config, args)


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
        raise ConfigError("run needs a program: python -m xla_sim run SCRIPT [ARGS…], or run -m MODULE [ARGS…].")
    if program[0] == "-m":
        if len(program) < 2:
            raise ConfigError("-m needs a module: python -m xla_sim run -m package.train.")
        return
    if program[0].startswith("-"):
        raise ConfigError(f"run has no option {program[0]!r}. See `python -m xla_sim run --help`.")
    path = Path(program[0])
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a Python script, or a module with -m.")
    if not path.is_file():
        raise ConfigError(f"there is no file {path} (looked in {Path.cwd()}).")


def _report(trace: Trace, config: Config, args: argparse.Namespace) -> int:
    from xla_sim.report import print_terminal, write_reports
    from xla_sim.report.document import to_document, to_json
    from xla_sim.report.files import write_atomic

    findings = list(trace.findings)
    if args.write_baseline:
        write_baseline(Path(args.write_baseline), findings)
        print(f"{len(findings)} findings are known from now on: {args.write_baseline}")
    hidden = None
    if config.baseline and not args.write_baseline:
        fresh = without_known(Path(config.baseline), findings)
        hidden, findings = {"file": config.baseline, "known": len(findings) - len(fresh)}, fresh
    document = to_document(trace, findings, hidden)
    try:
        write_reports(args.out, document)
        if args.json and args.json.resolve() != (args.out / "report.json").resolve():
            write_atomic(args.json, to_json(document))
    except OSError as error:
        print(f"xla_sim run: the report can't be written to {args.out}: {error.strerror or error}.", file=sys.stderr)
        return CANNOT
    if not args.quiet:
        print_terminal(document, args.out, None if trace.exit else "nox -s tpu_compile")
    if trace.exit != 0:
        return FAILED
    return FINDINGS if not args.write_baseline and fails(findings, config.fail_on) else OK


def _rules(args: argparse.Namespace) -> int:
    from xla_sim.report.rules_page import print_rules
    from xla_sim.rules import all_rules

    print_rules(all_rules())
    return OK


def _explain(args: argparse.Namespace) -> int:
    from xla_sim.report.rules_page import print_rule
    from xla_sim.rules import find_rule

    try:
        rule = find_rule(args.rule)
    except KeyError as error:
        raise ConfigError(f"{error.args[0]}.") from error
    print_rule(rule)
    return OK
