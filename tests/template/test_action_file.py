"""The GitHub action is what GitHub's linters take; tests/doors/test_action.py runs its scripts."""

from __future__ import annotations

import re

import pytest
import yaml
from conftest import TEMPLATE, run

ACTION = TEMPLATE / "xla-sim" / "action.yml"
CHECKS = {
    "zizmor": ["zizmor", "--offline", "--persona=pedantic", str(ACTION)],
    "schema": ["check-jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)],
}


@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS.keys())
def test_the_action_passes(command: list[str]) -> None:
    checked = run(*command, cwd=TEMPLATE)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_no_input_reaches_a_script_but_as_a_variable() -> None:
    steps = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []


def test_actions_are_pinned_by_commit_with_the_version_beside_it() -> None:
    uses = [
        line.strip() for line in ACTION.read_text(encoding="utf-8").splitlines() if line.strip().startswith("uses:")
    ]
    assert uses
    for line in uses:
        assert re.fullmatch(r"uses: [\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
