"""``xla-sim rules`` and ``xla-sim explain``: what there is to find, and what to do about it."""

from __future__ import annotations

import argparse
from typing import Any

from xla_sim.cli.options import OK
from xla_sim.rules.selection import ConfigError


def add_parser(commands: Any) -> None:
    """Add the ``rules`` and ``explain`` commands."""
    rules = commands.add_parser("rules", help="list the rules")
    rules.set_defaults(main=_rules)
    explain = commands.add_parser("explain", help="print a rule's page: what it means and what to do")
    explain.add_argument("rule", metavar="NAME-OR-CODE", help="host-sync, or XLA201")
    explain.set_defaults(main=_explain)


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
