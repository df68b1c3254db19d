"""The workflow does on GitHub what the noxfile does here: its run: steps are executed, in order, in one shell each."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BIN

SESSIONS = ["lint", "tests", "xla_sim", "tpu_compile"]


def steps(repository: Path) -> list[dict[str, Any]]:
    workflow = yaml.safe_load((repository / ".github" / "workflows" / "test-xla.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


@pytest.fixture
def repository(default_repository: Path, tmp_path: Path) -> Path:
    """The default repository, whose sessions only write down that they ran: what they do is tested elsewhere."""
    copy = tmp_path / "repository"
    shutil.copytree(default_repository, copy, symlinks=True)
    stand_in = ["import nox", ""]
    for name in SESSIONS:
        stand_in += ["@nox.session(python=False)", f"def {name}(session):", f"    open('ran', 'a').write('{name}\\n')"]
    stand_in += ["    import os; os.makedirs('reports/xla_sim', exist_ok=True)"]
    stand_in += [
        "    open('reports/xla_sim/summary.md', 'w').write('# Verdict\\n')",
        "",
        "if __name__ == '__main__':",
        "    nox.main()",
    ]
    header = (copy / "noxfile.py").read_text(encoding="utf-8").split('"""')[0].replace("nox[rattler,uv]", "nox")
    (copy / "noxfile.py").write_text(header + "\n".join(stand_in), encoding="utf-8")
    return copy


def execute(step: dict[str, Any], repository: Path, summary: Path) -> subprocess.CompletedProcess[str]:
    """Run one step as GitHub does: bash -e, with the variables that it gives."""
    variables = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "CI": "true", "XLA_SIM_STRICT": "1"}
    variables["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(command, cwd=repository, env=variables, capture_output=True, text=True, check=False)


def test_every_run_step_runs(repository: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    for step in steps(repository):
        if "run" in step:
            done = execute(step, repository, summary)
            assert done.returncode == 0, f"{step['name']}: {done.stderr}"
    assert (repository / "ran").read_text().split() == SESSIONS
    assert summary.read_text() == "# Verdict\n"


def test_the_summary_step_is_quiet_when_nothing_was_simulated(repository: Path, tmp_path: Path) -> None:
    """It runs even when an earlier step failed, and must not be a second failure."""
    (step,) = [step for step in steps(repository) if "GITHUB_STEP_SUMMARY" in step.get("run", "")]
    assert step["if"] == "${{ !cancelled() }}"
    assert execute(step, repository, tmp_path / "summary.md").returncode == 0
    assert not (tmp_path / "summary.md").exists()


def test_the_report_is_uploaded_from_where_the_noxfile_writes_it(default_repository: Path) -> None:
    (upload,) = [step for step in steps(default_repository) if "upload-artifact" in step.get("uses", "")]
    noxfile = (default_repository / "noxfile.py").read_text(encoding="utf-8")
    assert f'REPORTS = Path("{upload["with"]["path"]}")' in noxfile


def test_the_environment_is_cached_by_environment_yml(default_repository: Path) -> None:
    caches = {
        step["with"]["path"]: step["with"]["key"]
        for step in steps(default_repository)
        if "cache@" in step.get("uses", "")
    }
    assert "hashFiles('environment.yml')" in caches[".nox/env"]
    assert "hashFiles('vendor/xla-sim/pyproject.toml')" in caches["~/.cache/xla_sim"]
