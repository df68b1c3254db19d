"""``xla-sim``, which is ``python -m xla_sim``: run, compile, fit, report, rules, explain.

Exit codes: 0 nothing at or above the fail level; 1 findings; 2 the command or the configuration was wrong; 3 the program
itself failed, was stopped or was interrupted; 4 this environment can't run it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from xla_sim.cli import compile_command, fit_command, report_command, rules_command, run_command
from xla_sim.cli.options import FAILED, OK, WRONG
from xla_sim.rules.selection import ConfigError

_EPILOG = """\
exit codes: 0 nothing at or above the fail level · 1 findings · 2 the command was wrong ·
            3 the program itself failed · 4 this environment can't run it

examples:
  xla-sim run src/toy/train.py --steps 20    what would a TPU punish?
  xla-sim compile reports/xla_sim            what does the TPU compiler say?
  xla-sim explain host-sync                  what does it mean, and what to do?
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}. See `{self.prog} --help`.", file=sys.stderr)
        sys.exit(WRONG)


def parser() -> argparse.ArgumentParser:
    """The commands in the order of the evidence that they bring."""
    main = _Parser(
        prog="xla-sim" if Path(sys.argv[0]).name == "xla-sim" else "python -m xla_sim",
        description="Tell, with no TPU in sight, what a TPU would say to a PyTorch/XLA training program.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for module in (run_command, compile_command, fit_command, report_command, rules_command):
        module.add_parser(commands)
    return main


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = parser().parse_args(run_command.protect_module(words))
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
