"""How the generated noxfile builds its environment: which backend, when again, and what it says when it can't.

A small environment.yml stands in for the real one, so that an environment takes seconds: the way to it is the same.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import loopback
import pytest
from conftest import run

SMALL = """\
name: tpu_simulate
channels:
  - conda-forge
dependencies:
  - python={python}
  - pip
  - pip:
      - {option}
      - iniconfig==2.0.0
      - -e .
"""
NOWHERE = "http://127.0.0.1:9"  # nothing listens on the port named "discard"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="session")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A loopback channel with Python 3.12 and 3.9, as far as they are installed here."""
    folder = tmp_path_factory.mktemp("channel")
    versions = loopback.make_channel(folder, ["3.12", "3.9"])
    with loopback.served(folder) as address:
        yield address, versions


@pytest.fixture
def repository(default_repository: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "repository"
    shutil.copytree(default_repository, copy, symlinks=True)
    write_environment(copy)
    return copy


def write_environment(repository: Path, python: str = HERE, option: str = "packaging") -> None:
    (repository / "environment.yml").write_text(SMALL.format(python=python, option=option))


def nox(
    repository: Path, *arguments: str, path: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run nox as the tests have it installed, where no conda is on the path."""
    variables = {"NOX_SCRIPT_MODE": "none", "CI": "", "COLUMNS": "200", **variables}
    if path is not None:
        variables["PATH"] = path
    return run("nox", "--no-color", *arguments, cwd=repository, **variables)


def path_without(*tools: str) -> str:
    """The path of this process, less the folders with one of these tools in them."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not any((Path(folder) / tool).exists() for tool in tools))


def without_conda() -> str:
    return path_without("conda", "mamba", "micromamba")


def unreachable(tmp_path: Path) -> dict[str, str]:
    """Variables under which conda-forge is an address where nothing listens."""
    return {**loopback.variables(tmp_path / "home", NOWHERE), "PATH": without_conda()}


def said(process: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.removeprefix("nox > ") for line in (process.stdout + process.stderr).splitlines()]


def needs(channel: tuple[str, list[str]], version: str) -> None:
    if version not in channel[1]:
        pytest.skip(f"no Python {version} with a prefix of its own on this machine, to make a conda package of")


@pytest.mark.parametrize("version", ["3.12", "3.9"])
def test_env_builds_a_conda_environment(
    repository: Path, channel: tuple[str, list[str]], tmp_path: Path, version: str
) -> None:
    """Only rattler is here, so it builds the environment, from conda-forge's mirror, with the pip list in it."""
    needs(channel, version)
    write_environment(repository, version)
    variables = {**loopback.variables(tmp_path / "home", channel[0]), "PATH": without_conda()}
    built = nox(repository, "-s", "env", **variables)
    assert built.returncode == 0, built.stderr
    assert (repository / ".nox" / "env" / "conda-meta").is_dir()
    assert any(re.fullmatch(r"built from environment.yml with rattler in \d+ s", line) for line in said(built))
    assert 'to work in it: export PATH="$PWD/.nox/env/bin:$PATH"' in said(built)
    python = repository / ".nox" / "env" / "bin" / "python"
    code = "import sys, iniconfig, toy_tpu_research; print(sys.version_info[:2], iniconfig.__file__)"
    shown = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith(str(tuple(int(part) for part in version.split("."))))
    assert str(repository / ".nox" / "env") in shown


def test_the_environment_is_reused_as_long_as_it_can_be(repository: Path, tmp_path: Path) -> None:
    """As it is, or with the packages that came to it; a Python or a requirement that went away needs another one."""
    variables = unreachable(tmp_path)
    nox(repository, "-s", "env", **variables)
    marker = repository / ".nox" / "env" / "marker"
    marker.touch()

    again = nox(repository, "-s", "env", **variables)
    assert again.returncode == 0
    assert marker.exists()
    assert not [line for line in said(again) if "pip install" in line or "can't be reached" in line]

    with (repository / "environment.yml").open("a") as file:
        file.write("      - pluggy\n")
    grown = nox(repository, "-s", "env", **variables)
    assert grown.returncode == 0, grown.stderr
    assert marker.exists()
    assert any(re.fullmatch(r"brought up to environment.yml with uv in \d+ s", line) for line in said(grown))
    assert list((repository / ".nox" / "env" / "lib").glob("python*/site-packages/pluggy"))

    project = repository / "pyproject.toml"
    project.write_text(project.read_text().replace("dependencies = []", 'dependencies = ["tomli-w"]', 1))
    assert nox(repository, "-s", "env", **variables).returncode == 0
    assert marker.exists()
    assert list((repository / ".nox" / "env" / "lib").glob("python*/site-packages/tomli_w"))

    write_environment(repository, option="pluggy")
    changed = nox(repository, "-s", "env", **variables)
    assert changed.returncode == 0, changed.stderr
    assert not marker.exists()
    assert list((repository / ".nox" / "env" / "lib").glob("python*/site-packages/pluggy"))


def test_a_build_that_failed_is_not_reused(repository: Path, tmp_path: Path) -> None:
    write_environment(repository, option="no-such-package-as-this==1")
    assert nox(repository, "-s", "env", **unreachable(tmp_path)).returncode != 0
    write_environment(repository)
    fine = nox(repository, "-s", "env", **unreachable(tmp_path))
    assert fine.returncode == 0, fine.stderr
    assert list((repository / ".nox" / "env" / "lib").glob("python*/site-packages/iniconfig"))


def test_an_unreachable_channel_falls_back_to_uv_in_one_line(repository: Path, tmp_path: Path) -> None:
    built = nox(repository, "-s", "env", **unreachable(tmp_path))
    assert built.returncode == 0, built.stderr
    told = [line for line in said(built) if "can't be reached" in line]
    assert told == ["conda-forge can't be reached (Connection refused): building with uv and the same pins."]
    assert (repository / ".nox" / "env" / "pyvenv.cfg").exists()


def test_a_silent_channel_costs_seconds(repository: Path, tmp_path: Path) -> None:
    """A server that accepts and never answers, as a firewall that drops packets would have it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        variables = {**loopback.variables(tmp_path / "home", address), "PATH": without_conda(), "XLA_SIM_TIMEOUT": "1"}
        started = time.monotonic()
        built = nox(repository, "-s", "env", **variables)
        took = time.monotonic() - started
    assert built.returncode == 0, built.stderr
    assert "conda-forge can't be reached (no answer in 1 seconds): building with uv and the same pins." in said(built)
    assert took < 60


def test_an_unreachable_torch_index_falls_back_to_pypi_in_one_line(repository: Path, tmp_path: Path) -> None:
    write_environment(repository, option=f"--extra-index-url {NOWHERE}/whl/cpu")
    built = nox(repository, "-fb", "uv", "-s", "env", **unreachable(tmp_path))
    assert built.returncode == 0, built.stderr
    (line,) = [line for line in said(built) if "can't be reached" in line]
    assert line == (
        f"{NOWHERE}/whl/cpu can't be reached (Connection refused): "
        "taking PyPI's torch, a CUDA build and an environment of 7 GB."
    )


@pytest.mark.parametrize("arguments", [["-s", "env"], ["-fb", "uv", "-s", "env"]])
def test_in_strict_mode_a_fallback_is_an_error(repository: Path, tmp_path: Path, arguments: list[str]) -> None:
    write_environment(repository, option=f"--extra-index-url {NOWHERE}/whl/cpu")
    refused = nox(repository, *arguments, **unreachable(tmp_path), XLA_SIM_STRICT="1")
    assert refused.returncode != 0
    (line,) = [line for line in said(refused) if "can't be reached" in line]
    assert "XLA_SIM_STRICT is set, so this is an error." in line
    assert not (repository / ".nox" / "env").exists()


@pytest.mark.parametrize("backend", ["uv", "virtualenv"])
def test_a_forced_backend_asks_no_channel(repository: Path, tmp_path: Path, backend: str) -> None:
    built = nox(repository, "-fb", backend, "-s", "env", **unreachable(tmp_path))
    assert built.returncode == 0, built.stderr
    assert not [line for line in said(built) if "can't be reached" in line]
    assert "to work in it: source .nox/env/bin/activate" in said(built)


def test_without_uv_pip_does_the_same(repository: Path, tmp_path: Path) -> None:
    """virtualenv comes with nox, and pip with virtualenv."""
    pretend = tmp_path / "pretend"
    pretend.mkdir()
    (pretend / "sitecustomize.py").write_text("import sys\nsys.modules['uv'] = None\n")
    variables = {**unreachable(tmp_path), "PATH": path_without("conda", "mamba", "micromamba", "uv")}
    built = nox(repository, "-s", "env", **variables, PYTHONPATH=str(pretend))
    assert built.returncode == 0, built.stderr
    assert "conda-forge can't be reached (Connection refused): building with virtualenv and the same pins." in said(
        built
    )
    assert any("-m pip install packaging iniconfig==2.0.0 -e ." in line for line in said(built))
    assert list((repository / ".nox" / "env" / "lib").glob("python*/site-packages/iniconfig"))


def test_the_nearest_python_is_taken_where_the_asked_one_is_missing(repository: Path, tmp_path: Path) -> None:
    """Pythons that the pins allow are in pyproject.toml; 3.8 is none that anybody could fetch from here."""
    environment = SMALL.format(python="3.1", option="torch_xla==2.9.0")  # the pin that names the stack
    (repository / "environment.yml").write_text(environment)
    code = (
        "import sys, pathlib; sys.argv=['nox']; from xla_sim.environment import nox_env, reach; import nox;"
        "reach.fetch_python = nox_env.fetch_python = lambda version: False;"
        "nox_env.find_python = lambda version: f'/usr/bin/python{version}' if version in ('3.10', '3.11') else None;"
        "plan = nox_env.plan('env', nox.project.load_toml('pyproject.toml')); print(plan.python); print(plan.notes[1])"
    )
    variables = {**unreachable(tmp_path), "PYTHONPATH": str(repository / "vendor" / "xla-sim")}
    shown = run("python", "-c", code, cwd=repository, **variables)
    assert shown.stdout.splitlines() == [
        "/usr/bin/python3.11",
        "Python 3.1 is not here and can't be fetched: using Python 3.11, which the pins allow.",
    ], shown.stderr


def test_where_no_python_fits_the_message_says_what_to_install(repository: Path, tmp_path: Path) -> None:
    write_environment(repository, python="3.1")
    refused = nox(repository, "-s", "env", **unreachable(tmp_path), UV_PYTHON_INSTALL_MIRROR=NOWHERE)
    assert refused.returncode != 0
    (line,) = [line for line in said(refused) if "There is no Python" in line]
    assert line == (
        "Session env aborted: There is no Python for these pins (3.1) on this machine, and none can be fetched: "
        "install one of them, or conda (Miniforge brings it), and run the command again."
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "environment.yml can't be read: No such file or directory."),
        ("dependencies: [", "environment.yml is no valid YAML: "),
        ("name: x\n", 'environment.yml needs a list called "dependencies", as conda env create expects it.'),
        ("dependencies: [pip]\n", "environment.yml needs a Python version among its dependencies, such as"),
    ],
)
def test_a_broken_environment_yml_is_told_in_a_sentence(repository: Path, content: str | None, problem: str) -> None:
    path = repository / "environment.yml"
    path.unlink() if content is None else path.write_text(content)
    refused = nox(repository, "-s", "env")
    assert refused.returncode != 0
    assert any(problem in line for line in said(refused))
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("system", "machine", "name", "way"),
    [
        ("Darwin", "arm64", "macOS on arm64", "open this folder in its dev container"),
        ("Linux", "aarch64", "Linux on aarch64", "open this folder in its dev container"),
        ("Windows", "AMD64", "Windows on AMD64", "work in WSL2, or open this folder in its dev container"),
    ],
)
@pytest.mark.parametrize("session", ["xla_sim", "tpu_compiler"])
def test_other_machines_are_told_the_way_that_works(
    repository: Path, tmp_path: Path, system: str, machine: str, name: str, way: str, session: str
) -> None:
    pretend = tmp_path / "pretend"
    pretend.mkdir()
    code = f"import platform\nplatform.system = lambda: {system!r}\nplatform.machine = lambda: {machine!r}\n"
    (pretend / "sitecustomize.py").write_text(code)
    refused = nox(repository, "-s", session, PYTHONPATH=str(pretend))
    assert refused.returncode != 0
    (line,) = [line for line in said(refused) if "x86-64 Linux only" in line]
    assert f"this is {name}: {way}" in line


def test_listing_reads_like_a_table_of_contents_and_asks_nobody(repository: Path, tmp_path: Path) -> None:
    """Every session has a line, the default ones are those that CI runs, and no channel is asked."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: (server.accept(), asked.set()), daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        listed = nox(repository, "-l", **loopback.variables(tmp_path / "home", address))
        assert listed.returncode == 0
        assert not asked.is_set()
    lines = [line for line in listed.stdout.splitlines() if " -> " in line]
    marked = [line.split()[1] for line in lines if line.startswith("*")]
    assert set(marked) == {"env", "lint", "tests", "xla_sim"}
    names = {line.split()[1] for line in lines}
    assert names >= {"env", "lint", "tests", "xla_sim", "tpu_compile", "tpu_fit", "stacks"}
    assert all(line.split(" -> ")[1].strip().endswith((".", "?")) for line in lines)


@pytest.mark.parametrize("runner", ["uv", "pipx", "nox"])
def test_script_mode_needs_nothing_installed(repository: Path, tmp_path: Path, runner: str) -> None:
    """uv run noxfile.py, pipx run noxfile.py, and nox by itself bring what the header of the noxfile names."""
    if runner == "nox":
        bare = tmp_path / "bare"
        subprocess.run([sys.executable, "-m", "virtualenv", "--quiet", str(bare)], check=True)
        subprocess.run([str(bare / "bin" / "pip"), "install", "--quiet", "nox"], check=True)
        listed = run(bare / "bin" / "nox", "-l", cwd=repository)
    else:
        listed = run(runner, "run", "noxfile.py", "-l", cwd=repository, PIPX_HOME=str(tmp_path / "pipx"))
    assert listed.returncode == 0, listed.stderr
    assert "* xla_sim -> " in listed.stdout


def test_the_cpu_build_of_torch_is_preferred_where_its_index_can_be_reached(repository: Path, tmp_path: Path) -> None:
    """An index of our own serves "2.0.0+cpu" beside PyPI's "2.0.0"; the installer must take it, as it does with torch."""
    wheel = make_wheel(tmp_path / "index" / "iniconfig", "iniconfig", "2.0.0+cpu")
    page = f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a>'
    (wheel.parent / "index.html").write_text(page)
    (tmp_path / "index" / "torch").mkdir()
    (tmp_path / "index" / "torch" / "index.html").write_text("")
    with loopback.served(tmp_path / "index") as address:
        write_environment(repository, option=f"--extra-index-url {address}")
        built = nox(repository, "-fb", "uv", "-s", "env", **unreachable(tmp_path))
    assert built.returncode == 0, built.stderr
    assert list((repository / ".nox" / "env" / "lib").glob("python*/site-packages/iniconfig-2.0.0+cpu.dist-info"))


def make_wheel(folder: Path, name: str, version: str) -> Path:
    """The smallest wheel that installs."""
    import zipfile

    folder.mkdir(parents=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


STAND_IN = """\
#!/bin/sh
# Stands in for a conda, which no package index has: it writes down what it was asked, and makes the folder it was asked for.
echo "$(basename "$0") $*" >> "{log}"
while [ "$1" != --prefix ]; do shift; done
{python} -m venv --without-pip "$2" && mkdir "$2/conda-meta"
"""


@pytest.mark.parametrize(
    ("present", "chosen"),
    [(["conda", "micromamba", "mamba"], "mamba"), (["conda", "micromamba"], "micromamba"), (["conda"], "conda")],
)
def test_the_first_conda_that_is_present_builds(
    repository: Path, tmp_path: Path, present: list[str], chosen: str
) -> None:
    """Before rattler come mamba, micromamba and conda. The channel is a mirror, which .condarc names."""
    tools, log = tmp_path / "tools", tmp_path / "log"
    tools.mkdir()
    for name in present:
        (tools / name).write_text(STAND_IN.format(log=log, python=sys.executable))
        (tools / name).chmod(0o755)
    mirror = tmp_path / "mirror"
    (mirror / "conda-forge" / "noarch").mkdir(parents=True)
    (mirror / "conda-forge" / "noarch" / "repodata.json").write_text("{}")
    condarc = tmp_path / "condarc"
    with loopback.served(mirror) as address:
        condarc.write_text(f"channel_alias: {address}\n")
        variables = {**unreachable(tmp_path), "CONDARC": str(condarc)}
        variables["PATH"] = f"{tools}{os.pathsep}{variables['PATH']}"
        built = nox(repository, "-s", "env", **variables)
    assert built.returncode == 0, built.stderr
    assert log.read_text().splitlines() == [
        f"{chosen} create --yes --prefix {repository / '.nox' / 'env'} --override-channels -c conda-forge pip python={HERE}"
    ]
    assert f"to work in it: {chosen} activate ./.nox/env" in said(built)
