"""Run the ``run:`` steps of a workflow's job or of a composite action as GitHub's runner does, one bash each.

Expressions are evaluated as far as our files use them: inputs, outputs of steps, ``!cancelled()``, ``==``, ``!=``, ``&&``
and ``||``. Any other expression is an error here, but in the inputs of other actions, which are noted and not run.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]


@dataclass
class Job:
    """What a job came to."""

    exit: int = 0  # of the first step that failed
    output: str = ""  # of all steps
    summary: str = ""  # what GITHUB_STEP_SUMMARY holds
    ran: list[str] = field(default_factory=list)  # names of the steps that were not skipped
    used: dict[str, dict[str, str]] = field(default_factory=dict)  # inputs of the actions, by their name
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)  # by the step's id


def action_steps(path: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The steps of a composite action and the defaults of its inputs."""
    action = yaml.safe_load(path.read_text(encoding="utf-8"))
    return action["runs"]["steps"], {name: about.get("default", "") for name, about in action["inputs"].items()}


def in_place(step: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """The steps of the composite action that a step uses, with the inputs that it gives."""
    steps, inputs = action_steps(path)
    unknown = step.get("with", {}).keys() - inputs.keys()
    assert not unknown, f"the action has no input {unknown}"
    return [{**inner, "inputs of the action": {**inputs, **step.get("with", {})}} for inner in steps]


def workflow_steps(path: Path) -> list[dict[str, Any]]:
    """The steps of a workflow's only job."""
    (job,) = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    steps: list[dict[str, Any]] = job["steps"]
    return steps


def run_job(steps: list[dict[str, Any]], given: dict[str, str], folder: Path, temp: Path, **variables: str) -> Job:
    """Run the steps in `folder`; GitHub's own files lie in `temp`, its RUNNER_TEMP."""
    job = Job()
    summary = temp / "summary"
    for number, step in enumerate(steps):
        inputs = step.get("inputs of the action", given)
        name = step.get("name") or step["uses"]
        condition = str(step.get("if", ""))
        if job.exit and "cancelled()" not in condition:
            continue
        if condition and not evaluate(condition, inputs, job.outputs):
            continue
        job.ran.append(name)
        if "run" not in step:
            job.used[step["uses"].split("@")[0]] = {
                key: fill(value, inputs, job.outputs) for key, value in step.get("with", {}).items()
            }
            continue
        assert "${{" not in step["run"], f"{name}: an expression in a script is an injection"
        output = temp / f"output{number}"
        output.touch()
        own = {key: fill(value, inputs, job.outputs) for key, value in step.get("env", {}).items()}
        files = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(temp)}
        files |= {key: str(temp / key.lower()) for key in ("GITHUB_ENV", "GITHUB_PATH")}
        done = subprocess.run(
            [*BASH, "-c", step["run"]],
            cwd=folder,
            env={**os.environ, **variables, "CI": "true", **files, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        job.output += done.stdout
        job.exit = job.exit or done.returncode
        lines = output.read_text(encoding="utf-8").splitlines()
        job.outputs[step.get("id", name)] = dict(line.split("=", 1) for line in lines)
    job.summary = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return job


def fill(text: object, inputs: dict[str, str], outputs: dict[str, dict[str, str]]) -> str:
    """A value of ``env:`` or ``with:`` with its expressions replaced, but for those that only GitHub knows."""
    ours = r"\$\{\{(?!.*(?:hashFiles|runner\.|github\.)).*?\}\}"
    return re.sub(ours, lambda match: str(evaluate(match[0], inputs, outputs)), str(text))


def evaluate(expression: str, inputs: dict[str, str], outputs: dict[str, dict[str, str]]) -> Any:
    """The value of one ``${{ … }}``."""
    python = expression.strip().removeprefix("${{").removesuffix("}}").strip()
    python = python.replace("!cancelled()", "True").replace("&&", " and ").replace("||", " or ")
    python = re.sub(r"inputs\.([\w-]+)", lambda match: repr(inputs[match[1]]), python)
    python = re.sub(
        r"steps\.([\w-]+)\.outputs\.([\w-]+)",
        lambda match: repr(outputs.get(match[1], {}).get(match[2], "")),
        python,
    )
    return eval(python, {"__builtins__": {}})
