"""Rendering the template against cookiecutter's own start: the ratio is what the template's size costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parents[1]
ROUNDS = 7

EMPTY = '{"project_slug": "empty"}'


def seconds(template: Path) -> float:
    """How long cookiecutter takes for this template, start and end included."""
    with tempfile.TemporaryDirectory() as output:
        command = [sys.executable, "-m", "cookiecutter", str(template), "--no-input", "--output-dir", output]
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - started


def empty_template(folder: Path) -> Path:
    """A template with one empty file and no hooks: what is left is cookiecutter itself."""
    (folder / "cookiecutter.json").write_text(EMPTY)
    (folder / "{{cookiecutter.project_slug}}").mkdir()
    (folder / "{{cookiecutter.project_slug}}" / "file").touch()
    return folder


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty = empty_template(Path(folder))
        pairs = [(seconds(empty), seconds(TEMPLATE)) for _ in range(ROUNDS)]  # side by side, so that load hits both
    start, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"rendering   cookiecutter alone {start:.2f} s   this template {whole:.2f} s   ratio {whole / start:.2f}")


if __name__ == "__main__":
    main()
