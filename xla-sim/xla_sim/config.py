"""``[tool.xla_sim]`` in pyproject.toml, and what the command line sets over it.

[tool.xla_sim]
select = ["XLA", "TPU"]        # names, codes or their beginnings; everything by default
ignore = ["unaligned-batch"]
fail-on = "warning"            # error, warning or never
warmup-steps = 2
chips = ["v5e", "v6e"]
baseline = "xla_sim.baseline.json"
"""

from __future__ import annotations

import difflib
import importlib
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xla_sim.rules.selection import FAIL_ON, ConfigError, expand

KEYS = ("select", "ignore", "fail-on", "warmup-steps", "chips", "baseline", "timeout", "fit")


@dataclass(frozen=True)
class Config:
    """What the user asked for. ``timeout`` in seconds, None: no limit."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str = "warning"
    warmup_steps: int = 2
    chips: tuple[str, ...] = ("v5e",)
    baseline: str | None = None
    timeout: float | None = None
    fit: dict[str, Any] = field(default_factory=dict)  # the table of `xla_sim fit`, as it stands

    def names(self) -> set[str]:
        """The names of the rules that count."""
        chosen = {name for selector in self.select for name in expand(selector)} if self.select else expand("")
        return chosen - {name for selector in self.ignore for name in expand(selector)}


def load_config(start: Path | None = None) -> Config:
    """The configuration of the nearest pyproject.toml that has ``[tool.xla_sim]``, from ``start`` upwards.

    Raises:
        ConfigError: the file can't be parsed, a key or a rule is unknown, or a value has the wrong type.
    """
    folder = (start or Path.cwd()).resolve()
    for directory in (folder, *folder.parents):
        path = directory / "pyproject.toml"
        if path.is_file():
            table = _parse(path).get("tool", {}).get("xla_sim")
            if table is not None:
                return _from_table(table, path)
    return Config()


def _parse(path: Path) -> dict[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
        return table
    except (ValueError, OSError) as error:  # both modules' TOMLDecodeError is a ValueError
        raise ConfigError(f"{path} can't be read: {error}.") from error


def _from_table(table: dict[str, Any], path: Path) -> Config:
    where = f"[tool.xla_sim] of {path}"
    for key in table:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1, 0.4)
            raise ConfigError(f"{where} has no key {key!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
    config = Config(
        select=_strings(table, "select", where),
        ignore=_strings(table, "ignore", where),
        fail_on=str(table.get("fail-on", "warning")),
        warmup_steps=_whole(table, "warmup-steps", 2, where),
        chips=_strings(table, "chips", where) or ("v5e",),
        baseline=str(path.parent / table["baseline"]) if "baseline" in table else None,
        timeout=float(_whole(table, "timeout", 0, where)) or None,
        fit=dict(table.get("fit", {})),
    )
    return check(config, where)


def check(config: Config, where: str) -> Config:
    """The same configuration.

    Raises:
        ConfigError: a rule or a fail level is unknown.
    """
    if config.fail_on not in FAIL_ON:
        raise ConfigError(f"{where}: fail-on is {config.fail_on!r}; it is one of {', '.join(FAIL_ON)}.")
    try:
        config.names()
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return config


def _strings(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f'{where}: {key} is {value!r}; it is a list of strings, as in {key} = ["host-sync"].')
    return tuple(value)


def _whole(table: dict[str, Any], key: str, default: int, where: str) -> int:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{where}: {key} is {value!r}; it is a whole number, 0 or more.")
    return value


def with_options(config: Config, **options: Any) -> Config:
    """The configuration with those command-line options that were given."""
    given = {key: value for key, value in options.items() if value is not None}
    return check(replace(config, **given), "the command line")
