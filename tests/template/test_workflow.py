"""The workflow does on GitHub what the noxfile does here: its run: steps are executed, in order, in one shell each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BIN, TEMPLATE, Bake, run
from github_steps import Job, action_steps, in_place, run_job, workflow_steps

ACTION = TEMPLATE / "xla-sim" / "action.yml"
WORKFLOW = ".github/workflows/test-xla.yml"
SESSIONS = ["xla_sim", "tpu_compile", "tests", "lint"]  # the verdict first, and no other session hides it
CHECKS = {
    "zizmor": ["zizmor", "--offline", "--persona=pedantic", ".github"],
    "actionlint": ["actionlint"],
    "workflow schema": ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW],
    "a time limit": ["check-jsonschema", "--builtin-schema", "custom.github-workflows-require-timeout", WORKFLOW],
}
# What the environment's Python is asked for: python -m xla_sim report DIR --format FORMAT [--output FILE]
PYTHON = """#!/bin/sh
case "$6" in
  github) echo "::warning file=src/train.py,line=3,title=XLA201 host-sync::loss.item() reads a value" ;;
  sarif) echo "{}" > "$8" ;;
esac
"""


@pytest.fixture(params=["vendored", "package"])
def repository(request: pytest.FixtureRequest, bake: Bake) -> Path:
    """A generated repository, whose sessions only write down that they ran: what they do is tested elsewhere."""
    repository = bake(simulator=request.param).repository
    header = (repository / "noxfile.py").read_text(encoding="utf-8").split('"""')[0].replace("nox[rattler,uv]", "nox")
    stand_in = [line.split(", ")[0] + "]" if "xla-sim @" in line else line for line in header.splitlines()]
    stand_in += ["import os, pathlib", "import nox", ""]
    for name in SESSIONS:
        stand_in += ["@nox.session(python=False)", f"def {name}(session):", f"    open('ran', 'a').write('{name}\\n')"]
        if name == "xla_sim":
            stand_in += ["    out = pathlib.Path('reports/xla_sim')", "    out.mkdir(parents=True)"]
            stand_in += [f"    (out / '{file}').write_text('# Verdict\\n')" for file in ("summary.md", "report.json")]
        stand_in += [f"    if os.environ.get('BREAK') == '{name}': session.error('broken')"]
    stand_in += ["", "if __name__ == '__main__':", "    nox.main()"]
    (repository / "noxfile.py").write_text("\n".join(stand_in), encoding="utf-8")
    python = repository / ".nox" / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return repository


def steps_of(repository: Path) -> list[dict[str, Any]]:
    """The job's steps, with those of our own action in its place."""
    action = repository / "vendor" / "xla-sim" / "action.yml"
    found = workflow_steps(repository / WORKFLOW)
    return [
        inner
        for step in found
        for inner in (in_place(step, action) if step.get("uses") == "$/vendor/xla-sim" else [step])
    ]


def execute(repository: Path, temp: Path, **variables: str) -> Job:
    temp.mkdir()
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return run_job(steps_of(repository), {}, repository, temp, PATH=path, XLA_SIM_STRICT="1", **variables)


def test_every_step_runs_and_the_verdict_is_told(repository: Path, tmp_path: Path) -> None:
    job = execute(repository, tmp_path / "temp")
    assert job.exit == 0, job.output
    assert (repository / "ran").read_text().split() == SESSIONS
    assert job.summary == "# Verdict\n"
    assert "\n::warning file=src/train.py,line=3," in job.output
    assert job.used["actions/upload-artifact"] == {"name": "xla_sim", "path": "reports/xla_sim"}
    sarif = {"sarif_file": "reports/xla_sim/xla_sim.sarif", "category": "xla_sim"}
    assert job.used["github/codeql-action/upload-sarif"] == sarif


@pytest.mark.parametrize("broken", ["xla_sim", "lint"])
def test_whatever_fails_the_rest_runs_and_the_job_fails(repository: Path, tmp_path: Path, broken: str) -> None:
    job = execute(repository, tmp_path / "temp", BREAK=broken)
    assert job.exit != 0
    assert (repository / "ran").read_text().split() == SESSIONS
    assert job.summary == "# Verdict\n"
    assert {"actions/upload-artifact", "github/codeql-action/upload-sarif"} <= job.used.keys()


def test_where_nothing_was_simulated_nothing_is_told(repository: Path, tmp_path: Path) -> None:
    """The steps that tell run even when the environment could not be built, and are no second failure."""
    steps = [step for step in steps_of(repository) if "noxfile.py" not in step.get("run", "")]
    (tmp_path / "temp").mkdir()
    job = run_job(steps, {}, repository, tmp_path / "temp")
    assert (job.exit, job.summary) == (0, "")
    assert not {"actions/upload-artifact", "github/codeql-action/upload-sarif"} & job.used.keys()


@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS.keys())
def test_the_workflow_passes(repository: Path, command: list[str]) -> None:
    checked = run(*command, cwd=repository)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_without_vendor_the_steps_are_the_actions(bake: Bake) -> None:
    """The workflow spells them out where there is no folder to use them from: the same scripts, the same pins."""
    spelled = workflow_steps(bake(simulator="package").repository / WORKFLOW)
    own, _ = action_steps(ACTION)

    def telling(steps: list[dict[str, Any]]) -> list[tuple[str, str]]:
        names = {"Put the verdict on the run's page and on the lines of the change", "Keep the report"}
        names.add("Send the findings to code scanning")
        return [(step["name"], step.get("run") or step["uses"]) for step in steps if step.get("name") in names]

    assert len(telling(own)) == 3
    assert telling(spelled) == telling(own)


def test_the_report_is_told_from_where_the_noxfile_writes_it(default_repository: Path) -> None:
    (tell,) = [step for step in workflow_steps(default_repository / WORKFLOW) if step.get("uses") == "$/vendor/xla-sim"]
    noxfile = (default_repository / "noxfile.py").read_text(encoding="utf-8")
    assert f'REPORTS = Path("{tell["with"]["out"]}")' in noxfile


@pytest.mark.parametrize("simulator", ["vendored", "package"])
def test_caches_are_named_by_files_that_are_there(bake: Bake, simulator: str) -> None:
    """hashFiles of a missing file is an empty word, and the cache would never change."""
    repository = bake(simulator=simulator).repository
    text = (repository / WORKFLOW).read_text(encoding="utf-8")
    files = {name for call in text.split("hashFiles(")[1:] for name in call.split(")")[0].replace("'", "").split(", ")}
    version = "vendor/xla-sim/pyproject.toml" if simulator == "vendored" else "environment.yml"
    assert version in files
    assert [name for name in files if not list(repository.glob(name))] == []


def test_permissions_are_those_of_code_scanning(default_repository: Path) -> None:
    workflow = yaml.safe_load((default_repository / WORKFLOW).read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"}
    assert job["permissions"] == {"contents": "read", "actions": "read", "security-events": "write"}
