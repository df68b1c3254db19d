"""What the hooks leave behind: one commit, two next commands, or nothing at all."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, TEMPLATE, Bake


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def identity(tmp_path: Path, *settings: str) -> dict[str, str]:
    """Variables that make git see this configuration, and no other."""
    config = tmp_path / "gitconfig"
    config.write_text("\n".join(["[user]", *settings]) + "\n")
    return {"GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_SYSTEM": os.devnull}


def test_the_repository_has_one_commit_by_the_person(bake: Bake, tmp_path: Path) -> None:
    repository = bake(identity(tmp_path, "name = Grace Hopper", "email = grace@example.org")).repository
    assert git(repository, "rev-list", "--count", "HEAD") == "1"
    assert git(repository, "log", "--format=%an <%ae>, %cn, %s") == (
        "Grace Hopper <grace@example.org>, Grace Hopper, Start from tpusim-template"
    )
    assert git(repository, "branch", "--show-current") == "main"
    assert git(repository, "status", "--porcelain") == ""


def test_without_an_identity_the_commit_is_neutral(bake: Bake, tmp_path: Path) -> None:
    repository = bake(identity(tmp_path)).repository
    assert git(repository, "log", "--format=%an <%ae>") == "tpusim-template <tpusim-template@example.invalid>"


def test_settings_of_the_person_do_not_stop_the_commit(bake: Bake, tmp_path: Path) -> None:
    """A signing key that isn't there, a hook that always fails: neither belongs to a repository made this second."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    settings = ["name = A", "email = a@example.org", "[commit]", "gpgsign = true", "[core]", f"hooksPath = {hooks}"]
    repository = bake(identity(tmp_path, *settings)).repository
    assert git(repository, "rev-list", "--count", "HEAD") == "1"


def test_baking_inside_a_git_command_touches_no_other_repository(bake: Bake, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    repository = bake({"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}).repository
    assert git(repository, "rev-list", "--count", "HEAD") == "1"
    assert git(other, "for-each-ref") == ""


def path_without_git(tmp_path: Path) -> str:
    """A PATH with Python alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "python3"):
        (folder / name).symlink_to(BIN / "python")
    return str(folder)


def test_without_git_the_files_are_complete_and_a_line_says_so(bake: Bake, tmp_path: Path) -> None:
    baked = bake({"PATH": path_without_git(tmp_path)})
    assert not (baked.repository / ".git").exists()
    assert (baked.repository / "noxfile.py").exists()
    assert (
        baked.stderr.strip()
        == "git isn't installed, so this folder is no repository yet: install git and run git init."
    )


def test_when_git_fails_no_half_repository_is_left(bake: Bake, tmp_path: Path) -> None:
    folder = Path(path_without_git(tmp_path))
    real = shutil.which("git")
    (folder / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *commit*) echo "disk full" >&2; exit 1;; esac\nexec {real} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    baked = bake({"PATH": f"{folder}:{os.environ['PATH']}"})
    assert not (baked.repository / ".git").exists()
    assert baked.stderr.strip() == "git made no repository (disk full); the files are complete."


@pytest.mark.parametrize(
    ("tools", "runner"), [(["uv", "pipx"], "uv run noxfile.py"), (["pipx"], "pipx run noxfile.py"), ([], "nox")]
)
def test_the_next_two_commands_fit_what_is_installed(bake: Bake, tmp_path: Path, tools: list[str], runner: str) -> None:
    folder = Path(path_without_git(tmp_path))
    for tool in tools:
        (folder / tool).write_text("#!/bin/sh\n")
        (folder / tool).chmod(0o755)
    baked = bake({"PATH": str(folder), "PWD": str(tmp_path)})
    commands = [line.strip() for line in baked.stdout.splitlines() if line.startswith("  ")]
    assert commands == [f"cd {baked.repository.relative_to(tmp_path)}", f"{runner} -s xla_sim"]


def test_caches_of_the_template_are_not_baked(bake: Bake) -> None:
    cache = TEMPLATE / "xla-sim" / "xla_sim" / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "left.pyc").write_bytes(b"")
    repository = bake().repository
    assert list(repository.rglob("__pycache__")) == []


def test_a_failing_hook_leaves_nothing(tmp_path: Path) -> None:
    """Whatever goes wrong in the last hook, the folder goes again."""
    template = tmp_path / "template"
    shutil.copytree(TEMPLATE, template, symlinks=True, ignore=shutil.ignore_patterns(".git", ".nox", "demo"))
    hook = template / "hooks" / "post_gen_project.py"
    hook.write_text(hook.read_text() + "\nsys.exit(1)\n")
    output = tmp_path / "output"
    output.mkdir()
    command = [str(BIN / "cookiecutter"), str(template), "--no-input", "--output-dir", str(output)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    assert list(output.iterdir()) == []


def test_a_second_baking_does_not_overwrite_the_first(bake: Bake, tmp_path: Path) -> None:
    repository = bake().repository
    (repository / "README.md").write_text("mine")
    command = [str(BIN / "cookiecutter"), str(TEMPLATE), "--no-input", "--output-dir", str(repository.parent)]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "already exists" in again.stdout + again.stderr
    assert (repository / "README.md").read_text() == "mine"


@pytest.mark.parametrize("simulator", ["vendored", "package"])
def test_baking_over_a_repository_commits_nothing_and_removes_nothing(
    bake: Bake, tmp_path: Path, simulator: str
) -> None:
    repository = bake(identity(tmp_path, "name = A", "email = a@example.org")).repository
    before = git(repository, "rev-parse", "HEAD")
    (repository / "README.md").write_text("mine")
    (repository / "vendor" / "ours").mkdir()
    (repository / "vendor" / "ours" / "notes.txt").write_text("mine")
    git(repository, "add", "README.md")
    arguments = [
        "--no-input",
        "--overwrite-if-exists",
        "--output-dir",
        str(repository.parent),
        f"simulator={simulator}",
    ]
    again = subprocess.run(
        [str(BIN / "cookiecutter"), str(TEMPLATE), *arguments], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert again.stderr.strip() == (
        "This folder was a git repository already, so nothing is committed: git diff shows what changed."
    )
    assert git(repository, "rev-parse", "HEAD") == before
    assert git(repository, "diff", "--cached", "--name-only") == "README.md"
    assert git(repository, "show", ":README.md") == "mine"
    assert (repository / "vendor" / "ours" / "notes.txt").read_text() == "mine"
    assert (repository / "vendor" / "xla-sim").exists() == (simulator == "vendored")
