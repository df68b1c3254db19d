"""A repository that was never generated: this package in an environment of its own, torch_xla in the user's, one command each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import xla_sim
from xla_sim.environment.torch_python import NoTorchXla, find_torch_python

PACKAGE = Path(xla_sim.__file__).parent
PROJECT = PACKAGE.parent
TRAIN = """\
import torch
import torch_xla


def build(batch_size: int = 8):
    model = torch.nn.Linear(16, 4)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.empty(batch_size, 16), lambda m, x: m(x).square().mean()


def refuse():
    raise ValueError("mine")


if __name__ == "__main__":
    model = torch.nn.Linear(16, 4).to(torch_xla.device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16).to(torch_xla.device())).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
"""


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it from a git repository, without torch."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv")
    folder = tmp_path_factory.mktemp("tool")
    source = folder / "source"
    shutil.copytree(PROJECT, source / "xla-sim", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    git = ["git", "-C", str(source), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *words], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "env")], check=True)
    asked = f"xla-sim @ git+file://{source}#subdirectory=xla-sim"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), asked], check=True)
    return folder / "env" / "bin" / "xla-sim"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def call(tool: Path, repository: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a shell of somebody else's would."""
    unset = ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "XLA_SIM_PYTHON", "XLA_SIM_TPU_PYTHON", "XLA_SIM_NO_INSTALL")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [str(tool), *arguments],
        cwd=repository,
        env={**environment, "PATH": f"{tool.parent}:/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def put_environment(repository: Path) -> Path:
    """.venv with the torch_xla of this Python, as a user has it."""
    pytest.importorskip("torch_xla")
    environment = repository / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (source,) = {Path(path) for path in sys.path if (Path(path) / "torch_xla").is_dir()}
    for path in source.iterdir():
        if path.name.split("-")[0] not in ("rich", "google", "protobuf", "xla_sim") and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    return environment / "bin" / "python"


def test_run_compile_and_fit_in_the_environments_that_are_there(tool: Path, repository: Path, tpu_python: str) -> None:
    """The user's Python lacks rich and protobuf, this package's Python lacks torch; each does its part."""
    python = put_environment(repository)
    lacking = subprocess.run([str(python), "-c", "import google.protobuf"], check=False, capture_output=True)
    assert lacking.returncode != 0

    ran = call(tool, repository, "run", "train.py")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr.startswith("xla_sim run: the program runs in .venv/bin/python (Python 3.")
    assert "compiled   1 graph (step 1), none after warm-up" in ran.stdout
    assert ran.stdout.rstrip().endswith("no findings · reports/xla_sim/report.html · next: xla-sim compile")

    compiled = call(tool, repository, "compile", XLA_SIM_TPU_PYTHON=tpu_python)
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    assert "accepted" in compiled.stdout

    fits = call(tool, repository, "fit", "train:build", "--topology", "v5e:2x4", XLA_SIM_TPU_PYTHON=tpu_python)
    assert fits.returncode == 0, fits.stdout + fits.stderr
    assert "68 parameters, batch 8, fsdp=8 on v5e:2x4 (8 chips): fits" in fits.stdout

    failed = call(tool, repository, "fit", "train:refuse", "--topology", "v5e:2x4", XLA_SIM_TPU_PYTHON=tpu_python)
    assert failed.returncode == 3
    assert failed.stderr.endswith("ValueError: mine\nxla_sim fit: the function failed, see above\n")
    assert "xla_sim/" not in failed.stderr  # no frame of ours
    wrong = call(tool, repository, "fit", "train:nothing", "--topology", "v5e:2x4", XLA_SIM_TPU_PYTHON=tpu_python)
    assert (wrong.returncode, wrong.stderr.splitlines()[-1]) == (2, "xla_sim fit: train has no function nothing")


def test_without_torch_xla_it_says_what_to_do(tool: Path, repository: Path) -> None:
    for words in (["run", "train.py"], ["fit", "train:build", "--topology", "v5e:2x4"]):
        done = call(tool, repository, *words)
        assert done.returncode == 4
        assert done.stderr.startswith(f"xla_sim {words[0]}: torch_xla isn't installed in {tool.parent}/python")
        assert done.stderr.endswith(
            ": pip install torch torch_xla into the Python of your program, or name that Python with --python.\n"
        )
        assert done.stderr.count("\n") == 1


def test_no_install_says_how_to_make_it_by_hand(tool: Path, repository: Path, tmp_path: Path) -> None:
    graphs = Path(__file__).parents[1] / "hlo" / "graphs" / "torch_xla_2.7.0.pb"
    for words, variables in ((["--no-install"], {}), ([], {"XLA_SIM_NO_INSTALL": "1"})):
        done = call(
            tool, repository, "compile", *words, str(graphs), XLA_SIM_CACHE=str(tmp_path / "cache"), **variables
        )
        assert done.returncode == 4
        assert f"By hand: python3.12 -m venv {tmp_path}/cache/compiler-" in done.stderr
        assert "jax[tpu]==" in done.stderr and done.stderr.count("\n") == 1
        assert not (tmp_path / "cache").exists()


@pytest.mark.slow
@pytest.mark.network
def test_the_compiler_is_made_once_by_two_at_once(tool: Path, repository: Path, tmp_path: Path) -> None:
    graphs = Path(__file__).parents[1] / "hlo" / "graphs" / "torch_xla_2.7.0.pb"
    cache = tmp_path / "cache"
    environment = {**os.environ, "XLA_SIM_CACHE": str(cache)}
    for name in ("XLA_SIM_NO_INSTALL", "XLA_SIM_TPU_PYTHON"):
        environment.pop(name, None)
    command = [str(tool), "compile", str(graphs)]
    both = [
        subprocess.Popen(command, cwd=repository, env=environment, text=True, stdout=-1, stderr=-1) for _ in range(2)
    ]
    told = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    lines = "".join(errors for _, errors in told)
    assert lines.count("(once, about 1 GB)") == 1 and lines.count("made it in ") == 1
    assert [path.name for path in cache.glob("compiler-*.partial")] == []
    assert "making" not in call(tool, repository, "compile", str(graphs), XLA_SIM_CACHE=str(cache)).stderr


def test_a_python_that_is_named_has_to_have_torch_xla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    with pytest.raises(NoTorchXla) as refused:
        find_torch_python(str(bare), "install it")
    assert str(refused.value) == f"--python names {bare}, and torch_xla isn't installed there: install it."
    monkeypatch.setenv("XLA_SIM_PYTHON", "/nowhere/python")
    with pytest.raises(NoTorchXla) as refused:
        find_torch_python(None, "install it")
    assert str(refused.value) == (
        "XLA_SIM_PYTHON names /nowhere/python, and there is no such program: give the path of a Python."
    )
