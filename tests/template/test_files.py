"""The generated files are what their tools take: Python, TOML, YAML, a workflow, a dev container."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import TEMPLATE, Bake, run
from packaging.requirements import Requirement

CHECKS = {
    "ruff check": ["ruff", "check", "--no-cache"],
    "ruff format": ["ruff", "format", "--check", "--no-cache"],
    "mypy --strict": ["mypy", "--cache-dir=/dev/null"],
    "mypy --strict on the tests": ["mypy", "--cache-dir=/dev/null", "tests/test_train.py", "tests/test_xla_simulation.py"],
    "zizmor": ["zizmor", "--offline", "--persona=pedantic", ".github"],
    "actionlint": ["actionlint"],
    "workflow schema": [
        "check-jsonschema", "--builtin-schema", "vendor.github-workflows", ".github/workflows/test-xla.yml",
    ],
    "workflow jobs have a time limit": [
        "check-jsonschema", "--builtin-schema", "custom.github-workflows-require-timeout", ".github/workflows/test-xla.yml",
    ],
    "dev container": ["devcontainer", "read-configuration", "--workspace-folder", "."],
}  # fmt: skip


@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS.keys())
def test_the_generated_repository_passes(default_repository: Path, command: list[str]) -> None:
    checked = run(*command, cwd=default_repository)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dev_container_is_linux_amd64_and_builds_the_environment(default_repository: Path) -> None:
    """The real dev container tool reads it; its Dockerfile can't be built here, where no Docker engine runs."""
    read = run("devcontainer", "read-configuration", "--workspace-folder", ".", cwd=default_repository)
    configuration = json.loads(read.stdout.splitlines()[-1])["configuration"]
    assert configuration["build"] == {"dockerfile": "Dockerfile", "options": ["--platform=linux/amd64"]}
    assert configuration["runArgs"] == ["--platform=linux/amd64"]
    assert configuration["postCreateCommand"] == "uv run noxfile.py -s env"
    assert (default_repository / ".devcontainer" / "Dockerfile").exists()


@pytest.mark.parametrize("stack", ["py312-torch2.9", "py39-torch2.7", "py39-torch2.4"])
@pytest.mark.parametrize("index", ["cpu", "pypi"])
@pytest.mark.parametrize("channel", ["conda-forge", "defaults"])
def test_environment_yml_is_what_conda_takes(bake: Bake, stack: str, index: str, channel: str) -> None:
    """conda env create reads these keys alone, and hands the pip list to pip as a requirements file."""
    repository = bake(stack=stack, torch_index=index, conda_channel=channel).repository
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    assert environment.keys() == {"name", "channels", "dependencies"}
    assert environment["name"] == "tpu_simulate"
    assert environment["channels"] == [channel]
    pins = json.loads((TEMPLATE / "cookiecutter.json").read_text())["__stacks"][stack]
    python, pip, pip_list = environment["dependencies"]
    assert (python, pip, list(pip_list)) == (f"python={pins['python']}", "pip", ["pip"])
    requirements = pip_list["pip"]
    assert ("--extra-index-url https://download.pytorch.org/whl/cpu" in requirements) == (index == "cpu")
    for package in ("torch", "torch_xla"):
        assert f"{package}=={pins['torch']}" in requirements
    assert f"torchvision=={pins['torchvision']}" in requirements
    assert pins["numpy"] in requirements

    for line in requirements:
        if not line.startswith("-"):
            Requirement(line)  # raises where pip would
    assert [line for line in requirements if line.startswith("-")][-1] == "-e ."


def test_no_other_file_lists_the_simulations_dependencies(default_repository: Path) -> None:
    names = re.compile(r"\b(torch_xla|torchvision|torch)\s*==\d")
    tracked = run("git", "ls-files", cwd=default_repository).stdout.splitlines()
    listing = [
        file
        for file in tracked
        if names.search((default_repository / file).read_text(encoding="utf-8", errors="replace"))
    ]
    assert listing == ["environment.yml"]


def test_the_top_level_is_what_the_readme_says(default_repository: Path) -> None:
    """Few files, each in the README's table; a new one needs a line there."""
    readme = (default_repository / "README.md").read_text(encoding="utf-8")
    tracked = {line.split("/")[0] for line in run("git", "ls-files", cwd=default_repository).stdout.splitlines()}
    explained = set(re.findall(r"^\| `([\w.-]+)", readme, flags=re.MULTILINE))
    assert {name for name in tracked if not name.startswith(".")} - explained == {"LICENSE", "README.md", "noxfile.py"}


def test_actions_are_pinned_by_commit_with_the_version_beside_it(default_repository: Path) -> None:
    workflow = (default_repository / ".github" / "workflows" / "test-xla.yml").read_text()
    uses = [line.strip() for line in workflow.splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        assert re.fullmatch(r"(- )?uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+(\.\d+)*", line), line


def test_the_template_names_no_machine() -> None:
    """No path of a developer's machine, in any file."""
    listed = subprocess.run(["git", "ls-files"], cwd=TEMPLATE, capture_output=True, text=True, check=False).stdout
    for name in listed.splitlines():
        path = TEMPLATE / name
        if path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            found = re.search(r"(?<![\w.$}/-])/(root|work|tmp/envs)/\w", text)
            assert found is None or name == "tests/template/test_files.py", f"{name}: {found}"
