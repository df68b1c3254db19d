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

# As strict = true in pyproject.toml would: these allowances are there, and the command line's --strict goes over them.
STRICT = ["--strict", "--allow-subclassing-any", "--allow-untyped-decorators", "--no-warn-return-any"]
CHECKS = {
    "ruff check": ["ruff", "check", "--no-cache"],
    "ruff format": ["ruff", "format", "--check", "--no-cache"],
    "mypy": ["mypy", "--cache-dir=/dev/null"],
    "mypy --strict": ["mypy", "--cache-dir=/dev/null", *STRICT],
    "mypy --strict on the tests": ["mypy", "--cache-dir=/dev/null", *STRICT, "tests/test_train.py", "tests/test_xla_simulation.py"],
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


READMES = pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])


@READMES
def test_the_top_level_is_what_the_readme_says(default_repository: Path, name: str) -> None:
    """Few files, each in the README's table; a new one needs a line there, in both languages."""
    readme = (default_repository / name).read_text(encoding="utf-8")
    tracked = {line.split("/")[0] for line in run("git", "ls-files", cwd=default_repository).stdout.splitlines()}
    explained = set(re.findall(r"^\| `([\w.-]+)", readme, flags=re.MULTILINE))
    unexplained = {"LICENSE", "README.md", "README.zh-CN.md", "noxfile.py"}
    assert {name for name in tracked if not name.startswith(".")} - explained == unexplained


@READMES
def test_the_readme_names_every_session(default_repository: Path, name: str) -> None:
    readme = (default_repository / name).read_text(encoding="utf-8")
    noxfile = (default_repository / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r"^@nox\.session.*\ndef (\w+)", noxfile, flags=re.MULTILINE))
    assert "tpu_fit" in sessions
    assert {session for session in sessions if not re.search(rf"\b{session}`", readme)} == set()


@READMES
def test_what_goes_wrong_are_messages_that_exist(default_repository: Path, name: str) -> None:
    """A row of that table begins with a message, with … for what differs: the rest of it is in the simulator's code."""
    readme = (default_repository / name).read_text(encoding="utf-8")
    table = re.split(
        r"^## ", re.split(r"^## (?:What goes wrong|常见问题)$", readme, flags=re.MULTILINE)[1], flags=re.MULTILINE
    )[0]
    messages = re.findall(r"^\| `(.+?)` \|", table, flags=re.MULTILINE)
    assert len(messages) == 10
    code = "".join(path.read_text(encoding="utf-8") for path in (TEMPLATE / "xla-sim" / "xla_sim").rglob("*.py"))
    parts = [part.strip() for message in messages for part in message.split("…")]
    assert [part for part in parts if part not in code] == []


def test_both_readmes_have_the_same_parts(default_repository: Path) -> None:
    """The same headings in number, rows in tables, and blocks of commands, in the repository and in the template."""
    for folder in (default_repository, TEMPLATE):
        english, chinese = (
            re.findall(r"^(##|\||```\w+|\d\.|-)", (folder / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
            for name in ("README.md", "README.zh-CN.md")
        )
        assert english == chinese


def test_the_readme_counts_the_questions() -> None:
    words = {11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen"}
    answers = json.loads((TEMPLATE / "cookiecutter.json").read_text(encoding="utf-8"))
    count = len([name for name in answers if not name.startswith("_")])
    assert f"asks {words[count]} questions" in (TEMPLATE / "README.md").read_text(encoding="utf-8")
    assert f"{count} 个问题" in (TEMPLATE / "README.zh-CN.md").read_text(encoding="utf-8")


def test_actions_are_pinned_by_commit_with_the_version_beside_it(default_repository: Path) -> None:
    workflow = (default_repository / ".github" / "workflows" / "test-xla.yml").read_text()
    uses = [line.strip() for line in workflow.splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        ours = line.startswith("uses: $/vendor/")  # of this repository, at its commit
        assert ours or re.fullmatch(r"(- )?uses: [\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+(\.\d+)*", line), line


def test_the_template_names_no_machine() -> None:
    """No path of a developer's machine, in any file."""
    listed = subprocess.run(["git", "ls-files"], cwd=TEMPLATE, capture_output=True, text=True, check=False).stdout
    for name in listed.splitlines():
        path = TEMPLATE / name
        if path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            found = re.search(r"(?<![\w.$}/-])/(root|work|tmp/envs)/\w", text)
            assert found is None or name == "tests/template/test_files.py", f"{name}: {found}"
