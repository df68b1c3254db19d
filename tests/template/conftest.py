"""Baking: the fixtures that turn answers into a repository, with the real cookiecutter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

Bake = Callable[..., "Baked"]


class Baked:
    """What one run of cookiecutter did: its exit code, its output, and the repository if there is one."""

    def __init__(self, process: subprocess.CompletedProcess[str], output: Path) -> None:
        self.returncode = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.output = output

    @property
    def repository(self) -> Path:
        assert self.returncode == 0, self.stderr
        (repository,) = self.output.iterdir()
        return repository


def run_cookiecutter(output: Path, answers: dict[str, str], environment: dict[str, str] | None = None) -> Baked:
    output.mkdir(parents=True, exist_ok=True)
    command = [str(BIN / "cookiecutter"), str(TEMPLATE), "--no-input", "--output-dir", str(output)]
    process = subprocess.run(
        [*command, *(f"{name}={answer}" for name, answer in answers.items())],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(environment or {})},
        check=False,
    )
    return Baked(process, output)


@pytest.fixture
def bake(tmp_path: Path) -> Bake:
    """Bake with these answers and the defaults for the rest."""
    count = iter(range(100))

    def bake(environment: dict[str, str] | None = None, **answers: str) -> Baked:
        return run_cookiecutter(tmp_path / f"baked{next(count)}", answers, environment)

    return bake


@pytest.fixture(scope="session")
def default_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of the default answers. Tests that change files in it must copy it."""
    return run_cookiecutter(tmp_path_factory.mktemp("default"), {}).repository


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the test environment, and return what it said."""
    first, *rest = (str(word) for word in command)
    tool = BIN / first
    return subprocess.run(
        [str(tool) if tool.exists() else first, *rest],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        check=False,
    )
