"""What README.md and CONTRIBUTING.md of xla-sim tell is so: their commands are taken, their paths are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from xla_sim.cli.main import parser
from xla_sim.cli.run_command import protect_module
from xla_sim.config import load_config
from xla_sim.pytest_plugin import LIMITS

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "xla-sim"
README = (PROJECT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands() -> list[list[str]]:
    """The words behind each `xla-sim` that the README has somebody type."""
    lines = "\n".join(fenced(README, "console")).replace("\\\n", "").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    found = [line[len(line) - line[::-1].index("xla-sim") :] for line in words if "xla-sim" in line]
    return [*found, *(shlex.split(line)[1:] for line in re.findall(r"`(xla-sim \w+ [^`]+)`", README))]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_is_taken(words: list[str]) -> None:
    parser().parse_args(protect_module(words))


def test_the_three_commands_are_shown() -> None:
    assert {"run", "compile", "fit", "report", "explain"} <= {words[0] for words in commands()}


def test_the_configuration_is_taken(tmp_path: Path) -> None:
    (block,) = fenced(README, "toml")
    (tmp_path / "pyproject.toml").write_text(block, encoding="utf-8")
    assert load_config(tmp_path).chips == ("v5e", "v6e")


def test_the_action_has_the_inputs_that_are_named() -> None:
    (block,) = fenced(README, "yaml")
    inputs = yaml.safe_load((PROJECT / "action.yml").read_text(encoding="utf-8"))["inputs"].keys()
    (step,) = yaml.safe_load(block)
    sentence = README.split("exit code above.")[1].split("action.yml")[0]
    assert {*step["with"], *re.findall(r"`([\w-]+)`", sentence)} == set(inputs)


def test_the_markers_limits_are_the_plugins() -> None:
    (marker,) = re.findall(r"mark\.xla_sim\((.*)\)", README)
    assert set(re.findall(r"(\w+)=", marker)) <= set(LIMITS)


def test_what_contributing_names_is_there() -> None:
    named = [
        name for name in re.findall(r"`([\w./-]+)`", CONTRIBUTING) if "/" in name or name.endswith((".py", ".json"))
    ]
    places = (ROOT, PROJECT, PROJECT / "xla_sim", ROOT / "tests/rules/cases")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_sessions_that_contributing_names_are_the_noxfiles() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r"-s (\w+)", CONTRIBUTING))
    assert [name for name in sessions if f"\ndef {name}(" not in noxfile] == []


def test_each_is_short() -> None:
    """A page, and a screen."""
    assert len(CONTRIBUTING.splitlines()) <= 45
    assert len(README.splitlines()) <= 140
