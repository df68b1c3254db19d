"""What a report was made of: the program's own files by content, and the commit that they are of."""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PATIENCE = 10  # seconds for git to answer


def now() -> str:
    """``2026-12-01T03:29:55Z``."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def repository(folder: Path) -> dict[str, Any]:
    """``{"commit": "…", "dirty": False}`` of the repository around the folder; None for both without git or commit.

    Dirty: a file that git knows differs from the commit.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    changed = None if commit is None else _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def _git(folder: Path, *words: str) -> str | None:
    command = ["git", "-C", str(folder), *words]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, env=environ, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def content(files: Iterable[str]) -> dict[str, Any]:
    """``{"hash": "…", "files": 3}``: SHA-256 over names and contents, the same on every machine; None for no file."""
    digest, number = hashlib.sha256(), 0
    for name, path in sorted({_name(file): file for file in files}.items()):
        try:
            data = Path(path).read_bytes()
        except OSError:
            continue
        digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        number += 1
    return {"hash": digest.hexdigest() if number else None, "files": number}


def _name(file: str) -> str:
    """Relative to the working directory where the file lies below it, else the bare name."""
    relative = os.path.relpath(os.path.realpath(file), os.path.realpath(os.curdir))
    return os.path.basename(file) if relative.startswith("..") else Path(relative).as_posix()
