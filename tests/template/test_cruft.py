"""A repository made by cruft can be checked against the template, and brought up to date with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TEMPLATE, run

SIMULATOR = "vendor/xla-sim/xla_sim"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A clone of this template as it is on disk, committed, so that it can move on."""
    clone = tmp_path / "template"
    shutil.copytree(
        TEMPLATE, clone, symlinks=True, ignore=shutil.ignore_patterns(".git", ".nox", "demo", "__pycache__", ".*_cache")
    )
    git(clone, "init", "--quiet")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "one")
    return clone


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Path:
    made = run("cruft", "create", template, "--no-input", "--output-dir", tmp_path / "made", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    repository = tmp_path / "made" / "toy-tpu-research"
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "Link to the template")
    return repository


def test_a_fresh_repository_is_up_to_date_and_has_no_difference(repository: Path) -> None:
    assert json.loads((repository / ".cruft.json").read_text())["context"]["cookiecutter"]["license"] == "Apache-2.0"
    check = run("cruft", "check", cwd=repository)
    assert check.returncode == 0, check.stdout
    diff = run("cruft", "diff", "--exit-code", cwd=repository)
    assert (diff.returncode, diff.stdout) == (0, "")


def test_own_changes_show_as_a_difference(repository: Path) -> None:
    readme = repository / "README.md"
    readme.write_text(readme.read_text() + "\nOurs.\n")
    diff = run("cruft", "diff", "--exit-code", cwd=repository)
    assert diff.returncode == 1
    changed = [line for line in diff.stdout.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    assert sorted(changed) == ["-", "-Ours."]


def test_update_brings_the_new_simulator_and_keeps_own_code(template: Path, repository: Path) -> None:
    """vendor/ is replaced; src/, which the person rewrote, is not touched."""
    model = repository / "src" / "toy_tpu_research" / "model.py"
    model.write_text("# a model of our own\n")
    git(repository, "commit", "--quiet", "--all", "-m", "Our model")

    new = template / "xla-sim" / "xla_sim" / "new_rule.py"
    new.write_text('"""A rule of the next version."""\n')
    old = template / "xla-sim" / "xla_sim" / "environment" / "reach.py"
    old.write_text(old.read_text() + "\n# the next version\n")
    git(template, "add", "--all")
    git(template, "commit", "--quiet", "-m", "two")

    assert run("cruft", "check", cwd=repository).returncode == 1
    update = run("cruft", "update", "--skip-apply-ask", cwd=repository)
    assert update.returncode == 0, update.stdout + update.stderr
    assert (repository / SIMULATOR / "new_rule.py").read_text() == new.read_text()
    assert (repository / SIMULATOR / "environment" / "reach.py").read_text() == old.read_text()
    assert model.read_text() == "# a model of our own\n"
    assert git(repository, "rev-list", "--count", "HEAD").strip() == "3"
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "Update from the template")
    assert run("cruft", "check", cwd=repository).returncode == 0
