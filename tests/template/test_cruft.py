"""A repository made by cruft can be checked against the template, and brought up to date with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TEMPLATE, run

SIMULATOR = "vendor/xla-sim/xla_sim"
# The last commit at which a repository held the simulator as a folder xla_sim/ of its own.
BEFORE_THE_PROJECT = "1ae9ff3a35c1dd701c3efc73dac59c9efe911166"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout


def copy_template(clone: Path) -> None:
    """The template as it is on disk, without what git doesn't know."""
    ignored = shutil.ignore_patterns(".git", ".nox", "demo", "__pycache__", ".*_cache")
    shutil.copytree(TEMPLATE, clone, symlinks=True, ignore=ignored, dirs_exist_ok=True)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A clone of this template as it is on disk, committed, so that it can move on."""
    clone = tmp_path / "template"
    copy_template(clone)
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


@pytest.fixture
def older(tmp_path: Path) -> tuple[Path, Path]:
    """The template at the commit before the simulator became a project, and a repository made from it."""
    if run("git", "cat-file", "-e", f"{BEFORE_THE_PROJECT}^{{commit}}", cwd=TEMPLATE).returncode != 0:
        pytest.skip(f"commit {BEFORE_THE_PROJECT[:7]} is not in this clone: git fetch --unshallow brings it")
    template, made = tmp_path / "template", tmp_path / "made"
    git(tmp_path, "clone", "--quiet", str(TEMPLATE), str(template))
    git(template, "checkout", "--quiet", "-B", "main", BEFORE_THE_PROJECT)
    created = run("cruft", "create", template, "--no-input", "--output-dir", made, cwd=tmp_path)
    assert created.returncode == 0, created.stderr
    return template, made / "toy-tpu-research"


def test_update_turns_a_folder_of_the_simulator_into_the_vendored_project(older: tuple[Path, Path]) -> None:
    template, repository = older
    package = repository / "src" / "toy_tpu_research"
    (package / "model.py").write_text("# a model of our own\n", encoding="utf-8")
    (package / "ours.py").write_text("OURS = 1\n", encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "Our model")

    git(template, "rm", "-rq", ".")
    copy_template(template)
    git(template, "add", "--all")
    git(template, "commit", "--quiet", "-m", "The simulator is a project")
    update = run("cruft", "update", "--skip-apply-ask", cwd=repository)
    assert update.returncode == 0, update.stdout + update.stderr

    assert list(repository.rglob("*.rej")) == []
    assert {name for name in ("xla_sim", "docs", "requirements-tpu.txt") if (repository / name).exists()} == set()
    project = repository / "vendor" / "xla-sim"
    assert (project.is_dir(), project.is_symlink()) == (True, False)
    names = sorted(
        path.relative_to(template / "xla-sim") for path in (template / "xla-sim").rglob("*") if path.is_file()
    )
    assert [name for name in names if (project / name).read_bytes() != (template / "xla-sim" / name).read_bytes()] == []
    fresh = run("cookiecutter", template, "--no-input", "--output-dir", template.parent / "fresh", cwd=template.parent)
    assert fresh.returncode == 0, fresh.stderr
    for name in ("noxfile.py", "environment.yml", ".github/workflows/test-xla.yml"):
        assert (repository / name).read_text() == (template.parent / "fresh" / repository.name / name).read_text()
    assert json.loads((repository / ".cruft.json").read_text())["context"]["cookiecutter"]["simulator"] == "vendored"

    # Where both sides rewrote a file, git shows both; the README's command takes the own code as it was.
    assert "# a model of our own\n" in (package / "model.py").read_text(encoding="utf-8")
    git(repository, "restore", "--source=HEAD", "--staged", "--worktree", "src", "tests")
    assert (package / "model.py").read_text(encoding="utf-8") == "# a model of our own\n"
    assert (package / "ours.py").read_text(encoding="utf-8") == "OURS = 1\n"
    assert git(repository, "ls-files", "--unmerged") == ""
    assert git(repository, "diff", "HEAD", "--name-only", "--", "src", "tests") == ""
