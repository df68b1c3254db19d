"""Make the new folder a git repository with one commit, and say which two commands come next."""

from __future__ import annotations

import contextlib
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
    """vendor/xla-sim is copied as it is, with what Python and the linters left in it."""
    for name in ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "*.egg-info", "dist", "build"):
        for cache in (project / "vendor" / "xla-sim").rglob(name):
            shutil.rmtree(cache, ignore_errors=True)


def git_output(folder: Path, *arguments: str) -> str:
    """What git prints in a folder; nothing where it fails or isn't installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def simulator_source(answers: dict[str, str]) -> str:
    """URL@COMMIT#subdirectory=xla-sim of the template that is being baked, as pip and uv read it behind ``git+``."""
    started_in = Path(os.environ.get("PWD", "."))  # what a relative path was meant from
    template = answers.get("_template") or ""
    folder = started_in / (answers.get("_repo_dir") or template)
    if template.startswith("gh:"):
        url = f"https://github.com/{template[3:]}"
    elif re.match(r"[a-z+]+://|[\w.-]+@[\w.-]+:", template):
        url = re.sub(r"^([\w.-]+@[\w.-]+):", r"ssh://\1/", template)
    else:
        url = folder.resolve().as_uri()
    commit = answers.get("_commit") or git_output(folder, "rev-parse", "--verify", "HEAD")
    return f"{url}{f'@{commit}' if commit else ''}#subdirectory=xla-sim"


def leave_simulator_out(project: Path, answers: dict[str, str]) -> None:
    """The answer `package`: no folder of it, and the commit that this template is at as the version."""
    shutil.rmtree(project / "vendor" / "xla-sim", ignore_errors=True)
    with contextlib.suppress(OSError):  # the person's own, below vendor/
        (project / "vendor").rmdir()
    (project / ".gitattributes").unlink(missing_ok=True)
    for name in ("environment.yml", "noxfile.py"):
        path = project / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("SIMULATOR_SOURCE", simulator_source(answers)), encoding="utf-8")


def make_repository(project: Path) -> str | None:
    """Commit everything, in a repository made now; return a sentence when that is not what happened."""
    if (project / ".git").exists():  # cookiecutter -f, over the person's own
        return "This folder was a git repository already, so nothing is committed: git diff shows what changed."
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
    if ANSWERS["simulator"] == "package":
        leave_simulator_out(project, ANSWERS)
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
