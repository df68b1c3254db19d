"""The answer `simulator: package`, and what is in the wheels: each package its own files, side by side in one environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from conftest import TEMPLATE, run, run_cookiecutter

pytestmark = pytest.mark.network

PACKAGE = ["--extra-context", '{"simulator": "package"}']
SESSIONS = ["env", "lint", "stacks", "tests", "tpu_compile", "tpu_compiler", "tpu_fit", "xla_sim"]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def uv(*arguments: str | Path, cwd: Path) -> None:
    done = run("uv", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr


def python_in(venv: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an environment's Python, away from every source folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(venv / "bin" / "python"), *arguments]
    return subprocess.run(command, cwd=venv, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template as it is on disk, as a git repository somewhere else."""
    clone = tmp_path_factory.mktemp("clone") / "tpusim-template"
    ignored = shutil.ignore_patterns(".git", ".nox", "demo", "__pycache__", ".*_cache")
    shutil.copytree(TEMPLATE, clone, symlinks=True, ignore=ignored)
    git(clone, "init", "--quiet")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "one")
    return clone


@pytest.fixture(scope="module")
def packaged(template: Path) -> Path:
    """A repository of the clone, without a folder of the simulator."""
    made = template.parent / "made"
    done = run("cruft", "create", template, "--no-input", "--output-dir", made, *PACKAGE, cwd=template.parent)
    assert done.returncode == 0, done.stderr
    repository = made / "toy-tpu-research"
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", "Link to the template")
    return repository


def requirement(repository: Path) -> str:
    """The line of environment.yml that brings the simulator."""
    *_, pip = yaml.safe_load((repository / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (line,) = [line for line in pip["pip"] if "xla-sim" in line]
    return str(line)


def test_the_requirement_is_the_template_at_its_commit(template: Path, packaged: Path) -> None:
    commit = git(template, "rev-parse", "HEAD")
    line = f"xla-sim @ git+{template.as_uri()}@{commit}#subdirectory=xla-sim"
    assert requirement(packaged) == line
    assert f'"{line}"' in (packaged / "noxfile.py").read_text(encoding="utf-8")


def test_nothing_of_the_simulator_is_in_the_repository(packaged: Path) -> None:
    assert not (packaged / "vendor").exists()
    assert not (packaged / ".gitattributes").exists()
    tracked = git(packaged, "ls-files").splitlines()
    left = re.compile(r"SIMULATOR_SOURCE|vendor/xla-sim")
    tracked.remove(".cruft.json")  # it quotes the template's cookiecutter.json
    files = [file for file in tracked if left.search((packaged / file).read_text(encoding="utf-8")) is not None]
    assert files == []


def test_cruft_sees_no_difference(packaged: Path) -> None:
    diff = run("cruft", "diff", "--exit-code", cwd=packaged)
    assert (diff.returncode, diff.stdout) == (0, "")


def test_the_simulator_installs_and_the_noxfile_lists_its_sessions(packaged: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    uv("venv", "--quiet", venv, cwd=tmp_path)
    (nox,) = re.findall(r'"(nox\[[^"]+)"', (packaged / "noxfile.py").read_text(encoding="utf-8"))
    uv("pip", "install", "--quiet", "--python", venv, requirement(packaged), nox, "pyyaml", cwd=tmp_path)
    assert python_in(venv, "-c", "import xla_sim").returncode == 0
    shown = subprocess.run([venv / "bin" / "xla-sim", "--help"], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout.split()[0]) == (0, "usage:")
    listed = subprocess.run(
        [venv / "bin" / "nox", "-l"],
        cwd=packaged,
        env={**os.environ, "NOX_SCRIPT_MODE": "none"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    sessions = re.findall(r"^[*-] (\w+)", listed.stdout, flags=re.MULTILINE)
    assert [name for name in sorted(sessions) if not name.startswith("tpu_py")] == SESSIONS


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of two generated repositories and of the simulator in the first one's vendor/."""
    folder = tmp_path_factory.mktemp("wheels")
    one, two = (
        run_cookiecutter(folder / slug, {"project_slug": slug, "package_name": slug}).repository
        for slug in ("one", "two")
    )
    built = {}
    for name, project in (("one", one), ("two", two), ("xla_sim", one / "vendor" / "xla-sim")):
        uv("build", "--quiet", "--wheel", "--out-dir", folder / name, project, cwd=folder)
        (built[name],) = (folder / name).glob("*.whl")
        assert git(one if name == "xla_sim" else project, "status", "--porcelain") == "", "building left something"
    return built


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def info(wheel: Path, *names: str) -> set[str]:
    """Paths in the folder of a wheel's metadata."""
    name, version, *_ = wheel.name.split("-")
    return {f"{name}-{version}.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD", *names)}


def test_a_repositorys_wheel_holds_its_own_package_alone(wheels: dict[str, Path]) -> None:
    repository = wheels["one"].parents[1] / "one" / "one"
    source = repository / "src"
    own = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert files_of(wheels["one"]) == own | info(wheels["one"], "licenses/LICENSE")


def test_the_simulators_wheel_holds_the_package_with_its_data_and_its_license(wheels: dict[str, Path]) -> None:
    tracked = git(TEMPLATE, "ls-files", "--cached", "--others", "--exclude-standard", "xla-sim/xla_sim").splitlines()
    package = {name.removeprefix("xla-sim/") for name in tracked if (TEMPLATE / name).is_file()}
    held = files_of(wheels["xla_sim"])
    assert held == package | info(wheels["xla_sim"], "entry_points.txt", "licenses/LICENSE")
    assert "xla_sim/py.typed" in held
    assert {Path(name).suffix for name in package} == {".py", ".typed", ".j2", ".css", ".json"}


def test_two_repositories_and_the_simulator_live_in_one_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    uv("venv", "--quiet", venv, cwd=tmp_path)
    uv("pip", "install", "--quiet", "--python", venv, *wheels.values(), cwd=tmp_path)
    assert python_in(venv, "-c", "import one, two, xla_sim").returncode == 0
    uv("pip", "uninstall", "--quiet", "--python", venv, "one", cwd=tmp_path)
    assert "No module named 'one'" in python_in(venv, "-c", "import one").stderr
    assert python_in(venv, "-c", "import two, xla_sim").returncode == 0
    assert python_in(venv, "-m", "xla_sim", "rules").returncode == 0
