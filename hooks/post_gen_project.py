"""Make the new folder a git repository with one commit, and say which two commands come next."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ANSWERS: dict[str, str] = json.loads(
    "<< cookiecutter | jsonify(indent=0) | replace('\\', '\\\\') | replace('\x22', '\\\x22') | replace('\n', ' ') >>"
)

NEUTRAL_IDENTITY = {
    "GIT_AUTHOR_NAME": "tpusim-template",
    "GIT_AUTHOR_EMAIL": "tpusim-template@example.invalid",
    "GIT_COMMITTER_NAME": "tpusim-template",
    "GIT_COMMITTER_EMAIL": "tpusim-template@example.invalid",
}


def is_comparison_by_cruft(project: Path, answers: dict[str, str]) -> bool:
    """Whether cruft bakes only to compare, in a temporary folder: a repository inside would show up as a difference."""
    parent = project.parent
    in_temporary_folder = parent.parent == Path(tempfile.gettempdir()).resolve()
    return "_commit" in answers and in_temporary_folder and re.fullmatch(r"tmp[a-z0-9_]{8}", parent.name) is not None


def remove_caches(project: Path) -> None:
    """xla_sim/ is copied as it is, with what Python and the linters left in it."""
    for name in ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"):
        for cache in project.rglob(name):
            shutil.rmtree(cache, ignore_errors=True)


def make_repository(project: Path) -> str | None:
    """Commit everything; return a sentence when there is no repository in the end."""
    if shutil.which("git") is None:
        return "git isn't installed, so this folder is no repository yet: install git and run git init."

    # The variables of an enclosing git command (a hook, say) would make git work on another repository.
    elsewhere = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}

    def git(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments], cwd=project, env={**environment, **extra}, capture_output=True, text=True, check=False
        )

    known = [git("-c", "user.useConfigOnly=true", "var", f"GIT_{who}_IDENT") for who in ("AUTHOR", "COMMITTER")]
    identity = {} if all(answer.returncode == 0 for answer in known) else NEUTRAL_IDENTITY
    steps = [
        ("init", "--quiet"),
        ("symbolic-ref", "HEAD", "refs/heads/main"),  # git init knows --initial-branch only since 2.28
        ("add", "--all"),
        ("-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "-m", "Start from tpusim-template"),
    ]
    for step in steps:
        result = git(*step, **identity)
        if result.returncode != 0:
            shutil.rmtree(project / ".git", ignore_errors=True)
            reason = (result.stderr or result.stdout).strip().splitlines()
            return f"git made no repository ({reason[-1] if reason else 'no reason given'}); the files are complete."
    return None


def main() -> None:
    project = Path.cwd().resolve()
    remove_caches(project)
    if is_comparison_by_cruft(project, ANSWERS):
        return
    warning = make_repository(project)
    if warning is not None:
        print(warning, file=sys.stderr)
    runner = "uv run noxfile.py" if shutil.which("uv") else "pipx run noxfile.py" if shutil.which("pipx") else "nox"
    started_in = Path(os.environ.get("PWD", project.parent)).resolve()
    where = project.relative_to(started_in) if started_in in project.parents else project
    print(f"\n{ANSWERS['project_name']} is ready. Next:\n\n  cd {where}\n  {runner} -s xla_sim\n")


if __name__ == "__main__":
    main()
