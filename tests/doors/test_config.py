"""Configuration, inline ignores and the baseline behave as ruff's users expect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from xla_sim.config import Config, load_config, with_options
from xla_sim.report.baseline import without_known, write_baseline
from xla_sim.rules import all_rules, find_rule
from xla_sim.rules.selection import ConfigError, fails, filter_findings
from xla_sim.trace import Finding, Location


def configure(folder: Path, text: str) -> Config:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return load_config(folder)


def found(rule: str, location: Location | None = None) -> Finding:
    known = find_rule(rule)
    return Finding(known.name, known.code, known.severity, "seen", "change", location or Location())


def test_the_whole_table(tmp_path: Path) -> None:
    text = """
    [tool.xla_sim]
    select = ["XLA1", "host-sync"]
    ignore = ["XLA105"]
    fail-on = "error"
    warmup-steps = 3
    chips = ["v5p"]
    baseline = "known.json"
    timeout = 60
    [tool.xla_sim.fit]
    mesh = "fsdp=8"
    """
    config = configure(tmp_path, text)
    assert config == Config(
        select=("XLA1", "host-sync"),
        ignore=("XLA105",),
        fail_on="error",
        warmup_steps=3,
        chips=("v5p",),
        baseline=str(tmp_path / "known.json"),
        timeout=60.0,
        fit={"mesh": "fsdp=8"},
    )
    assert config.names() == {"graph-recompile", "missing-step", "never-on-xla", "growing-graph", "host-sync"}


def test_the_nearest_table_above_counts_and_other_projects_do_not(tmp_path: Path) -> None:
    configure(tmp_path, '[tool.xla_sim]\nignore = ["host-sync"]\n')
    inner = tmp_path / "src" / "package"
    inner.mkdir(parents=True)
    (tmp_path / "src" / "pyproject.toml").write_text("[tool.ruff]\n", encoding="utf-8")
    assert load_config(inner).ignore == ("host-sync",)


def test_without_a_table_every_rule_counts(tmp_path: Path) -> None:
    assert load_config(tmp_path).names() == {rule.name for rule in all_rules()}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('ignore = ["host-synk"]', "there is no rule 'host-synk'. Did you mean 'host-sync'?"),
        ('select = ["xla2O1"]', "there is no rule 'xla2O1'. Did you mean 'XLA201'?"),
        ("warmup_steps = 2", "has no key 'warmup_steps'. Did you mean 'warmup-steps'?"),
        ('warmup-steps = "2"', "warmup-steps is '2'; it is a whole number, 0 or more."),
        ('fail-on = "warn"', "fail-on is 'warn'; it is one of error, warning, never."),
        ('ignore = "host-sync"', "ignore is 'host-sync'; it is a list of strings"),
        ("ignore = [", "pyproject.toml can't be read: "),
    ],
)
def test_what_is_wrong_is_said_with_the_nearest_name(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configure(tmp_path, f"[tool.xla_sim]\n{line}\n")
    assert said in str(raised.value)
    assert str(tmp_path / "pyproject.toml") in str(raised.value)


def test_options_of_the_command_line_come_first() -> None:
    config = with_options(Config(select=("XLA1",), fail_on="error"), select=("XLA2",), fail_on=None)
    assert (config.select, config.fail_on) == (("XLA2",), "error")
    with pytest.raises(ConfigError, match="the command line: there is no rule 'XLA9'"):
        with_options(Config(), ignore=("XLA9",))


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("", ["host-sync", "cpu-fallback"]),
        ("  # xla-sim: ignore[host-sync]", ["cpu-fallback"]),
        ("  # xla-sim: ignore[XLA201, cpu-fallback]", []),
        ("  # xla-sim:ignore[XLA2]", []),
        ("  # xla-sim: ignore", []),
        ("  # noqa", ["host-sync", "cpu-fallback"]),
    ],
)
def test_ignores_on_the_line(tmp_path: Path, comment: str, left: list[str]) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import torch\nloss.item(){comment}\n", encoding="utf-8")
    place = Location(str(file), 2)
    findings = [found("host-sync", place), found("cpu-fallback", place)]
    assert [finding.rule for finding in filter_findings(findings, Config().names())] == left


def test_an_unknown_name_in_an_ignore_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loss.item()  # xla-sim: ignore[hostsync]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"train\.py:1: there is no rule 'hostsync'\. Did you mean 'host-sync'\?"):
        filter_findings([found("host-sync", Location(str(file), 1))], Config().names())


def test_the_baseline_hides_what_is_known_and_follows_code_that_moves(tmp_path: Path) -> None:
    file, baseline = tmp_path / "train.py", tmp_path / "known.json"
    file.write_text("loss.item()\nloss.cpu()\n", encoding="utf-8")
    write_baseline(baseline, [found("host-sync", Location(str(file), 1))])
    moved = tmp_path / "new"
    moved.mkdir()
    assert without_known(baseline, [found("host-sync", Location(str(file), 1))]) == []
    fresh = [found("host-sync", Location(str(file), 2)), found("cpu-fallback", Location(str(file), 1))]
    assert without_known(baseline, fresh) == fresh
    twice = [found("host-sync", Location(str(file), 1))] * 2
    assert without_known(baseline, twice) == twice[1:]
    import linecache

    file.write_text("import torch\n\n\nloss.item()\n", encoding="utf-8")
    linecache.checkcache()
    assert without_known(baseline, [found("host-sync", Location(str(file), 4))]) == []


@pytest.mark.parametrize("text", [None, "{}", "not json", '{"known": 3}'])
def test_a_baseline_that_is_none(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "known.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"the baseline .*known\.json can't be read \(.*\); write it with"):
        without_known(path, [found("host-sync")])


def test_fail_levels() -> None:
    warning, error, info = found("host-sync"), found("stale-optimizer"), found("unaligned-batch")
    assert [fails([warning], level) for level in ("error", "warning", "never")] == [False, True, False]
    assert [fails([error], level) for level in ("error", "warning", "never")] == [True, True, False]
    assert not fails([info], "warning")


def test_every_rule_has_a_name_a_code_and_a_page_of_its_own() -> None:
    rules = all_rules()
    assert len({rule.name for rule in rules}) == len({rule.code for rule in rules}) == len(rules) >= 21
    for rule in rules:
        assert find_rule(rule.code.lower()) is not None and find_rule(rule.name).code == rule.code
        assert rule.title().endswith(".") and "**Why a TPU cares.**" in rule.page() and "**Source.**" in rule.page()


def test_json_of_a_finding_is_json() -> None:
    assert json.loads(json.dumps(found("host-sync").as_dict()))["location"] == {
        "file": "",
        "line": 0,
        "function": "",
        "frames": [],
    }
