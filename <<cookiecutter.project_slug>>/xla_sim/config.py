"""``[tool.xla_sim]`` in pyproject.toml, inline ignores, and the baseline: which findings count, as ruff users expect.

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
import json
import linecache
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xla_sim.rules import all_rules
from xla_sim.trace import SEVERITIES, Finding, Location

FAIL_ON = ("error", "warning", "never")
KEYS = ("select", "ignore", "fail-on", "warmup-steps", "chips", "baseline", "timeout", "fit")
_INLINE = re.compile(r"#\s*xla-sim:\s*ignore(?:\[([^\]]*)\])?")


class ConfigError(Exception):
    """The command or the configuration is wrong; the message is a sentence for the user."""


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


def expand(selector: str) -> set[str]:
    """The names of the rules that a name, a code or the beginning of a code stands for.

    Raises:
        ConfigError: when it stands for none; the sentence suggests the nearest.
    """
    wanted = selector.strip()
    rules = all_rules()
    found = {rule.name for rule in rules if wanted == rule.name or rule.code.startswith(wanted.upper())}
    if found:
        return found
    known = [rule.name for rule in rules] + [rule.code for rule in rules]
    near = difflib.get_close_matches(wanted, known, 1, 0.4) or difflib.get_close_matches(wanted.upper(), known, 1, 0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"there is no rule {wanted!r}.{hint} `python -m xla_sim rules` lists them.")


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


def filter_findings(findings: Iterable[Finding], config: Config) -> list[Finding]:
    """The findings of the selected rules, without those that are ignored on their line.

    Raises:
        ConfigError: an inline ignore names a rule that doesn't exist.
    """
    names = config.names()
    return [f for f in findings if f.rule in names and f.rule not in ignored_on(f.location)]


def ignored_on(location: Location) -> set[str]:
    """The rules that ``# xla-sim: ignore[…]`` on that line silences; without brackets, all of them."""
    if not location.line:
        return set()
    match = _INLINE.search(linecache.getline(location.file, location.line))
    if match is None:
        return set()
    if match[1] is None:
        return expand("")
    try:
        return {name for selector in match[1].split(",") if selector.strip() for name in expand(selector)}
    except ConfigError as error:
        raise ConfigError(f"{location}: {error}") from error


# -- the baseline ------------------------------------------------------------------------------------------------------


def fingerprint(finding: Finding) -> str:
    """What a finding is known by: rule, file and the text of the line, so that code may move."""
    code = linecache.getline(finding.location.file, finding.location.line).strip() if finding.location.line else ""
    return f"{finding.rule}\t{finding.location.file}\t{code}"


def write_baseline(path: Path, findings: Sequence[Finding]) -> None:
    """Write the findings of today as known."""
    from xla_sim.report.files import write_atomic

    known = sorted(fingerprint(finding) for finding in findings)
    write_atomic(path, json.dumps({"schema": 1, "known": known}, indent=1) + "\n")


def without_known(path: Path, findings: Sequence[Finding]) -> list[Finding]:
    """The findings that the baseline doesn't hold; each entry covers one finding.

    Raises:
        ConfigError: the file is missing or is no baseline.
    """
    try:
        known = list(json.loads(path.read_text(encoding="utf-8"))["known"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"the baseline {path} can't be read ({error}); write it with `python -m xla_sim run --write-baseline FILE …`."
        ) from error
    new = []
    for finding in findings:
        key = fingerprint(finding)
        if key in known:
            known.remove(key)
        else:
            new.append(finding)
    return new


def fails(findings: Iterable[Finding], fail_on: str) -> bool:
    """Whether a finding reaches the fail level."""
    if fail_on == "never":
        return False
    least = SEVERITIES.index(fail_on)
    return any(SEVERITIES.index(finding.severity) >= least for finding in findings)


def with_options(config: Config, **options: Any) -> Config:
    """The configuration with those command-line options that were given."""
    given = {key: value for key, value in options.items() if value is not None}
    return check(replace(config, **given), "the command line")
