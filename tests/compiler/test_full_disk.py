"""A disk that is full where the compiler writes, where the report goes, and where results are kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# A small file system of the command's own at $1, of which $2 bytes are left.
SMALL = """
mount -t tmpfs -o size=1m tmpfs "$1"
if [ -n "$3" ]; then cp -r "$3"/. "$1"; fi
dd if=/dev/zero of="$1/filler" bs=1k count=4096 2> /dev/null
truncate -s "-$2" "$1/filler"
place="$1"; shift 3
"$@"; code=$?
ls -A "$place" >&2
exit $code
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Command = Run


@pytest.fixture
def on_a_full_disk(tmp_path: Path, tpu_python: str) -> Run:
    """Run ``xla_sim compile run`` with `place` on a file system that has `left` bytes; it is gone afterwards."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    probe = [*alone, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip("needs a user namespace that may mount a tmpfs")

    def run(place: Path, left: int, content: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        place.mkdir(exist_ok=True)
        env = {**os.environ, "XLA_SIM_CACHE": str(tmp_path / "cache"), "XLA_SIM_TPU_PYTHON": tpu_python, **environment}
        env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        words = [sys.executable, "-m", "xla_sim", "compile", "run", "--chips", "v5e"]
        shell = ["sh", "-c", SMALL, "sh", str(place), str(left), content]
        return subprocess.run(
            [*alone, *shell, *words], cwd=tmp_path, env=env, check=False, capture_output=True, text=True, timeout=300
        )

    return run


@pytest.fixture
def run_directory(graphs: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "graphs").mkdir(parents=True)
    shutil.copy(graphs / "matmul.pb", folder / "graphs")
    return folder


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("left", [24576, 81920], ids=["empty-program", "torn-program"])
def test_where_the_compiler_writes(
    left: int, on_a_full_disk: Run, command: Run, run_directory: Path, tmp_path: Path
) -> None:
    """The compiler goes on as if nothing were; its verdict has no figures then, and must not be kept."""
    place = tmp_path / "temporary"
    done = on_a_full_disk(place, left, TMPDIR=str(place))
    assert done.returncode == 4
    assert done.stderr == (
        f"xla_sim compile: {place}: no space is left there for what the TPU compiler writes; free some, or set TMPDIR to a "
        "folder on another disk; 0 of 1 compilations are done and kept\nfiller\n"
    )
    assert kept(tmp_path / "cache") == [] and not (run_directory / "compile.json").exists()
    again = command("compile", "run", "--chips", "v5e")
    assert again.returncode == 0, again.stderr
    (result,) = json.loads((run_directory / "compile.json").read_text())["results"]
    assert result["status"] == "ok" and result["hbm"]["arguments"] == 4 * (1024 * 512 + 512 * 256)


def test_where_the_report_goes(on_a_full_disk: Run, run_directory: Path, tmp_path: Path) -> None:
    """What was compiled is shown and kept all the same; no part of a file is left."""
    place = tmp_path / "small"
    original = run_directory.rename(tmp_path / "original")
    run_directory.symlink_to(place)
    done = on_a_full_disk(place, 0, str(original))
    assert done.returncode == 4
    assert "xla_sim compile: the report can't be written to run: No space left on device\n" in done.stderr
    assert done.stderr.split()[-3:] == ["compile-logs", "filler", "graphs"]
    assert "accepted" in done.stdout and len(kept(tmp_path / "cache")) == 1


def test_where_results_are_kept(on_a_full_disk: Run, run_directory: Path, tmp_path: Path) -> None:
    """That costs the cache, and nothing else."""
    place = tmp_path / "cache"
    done = on_a_full_disk(place, 0)
    assert done.returncode == 0
    assert f"xla_sim compile: the cache in {place} took no more results: No space left on device\n" in done.stderr
    assert json.loads((run_directory / "compile.json").read_text())["results"][0]["status"] == "ok"
