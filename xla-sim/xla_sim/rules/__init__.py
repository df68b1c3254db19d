"""The rules. A rule is one class in one module of `run/` (what the runtime recorded) or `chip/` (what the TPU compiler said);
importing the package finds them all."""

from __future__ import annotations

import importlib
import pkgutil

from xla_sim.rules.base import Rule, all_rules, find_rule

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = ["Rule", "all_rules", "find_rule"]
