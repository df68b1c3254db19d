"""The rules. A rule is one class in one module of this package; importing the package finds them all."""

from __future__ import annotations

import importlib
import pkgutil

from xla_sim.rules.base import Rule, all_rules, find_rule

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Rule", "all_rules", "find_rule"]
