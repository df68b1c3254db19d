"""Graphs lowered by jax in the TPU environment, and one way to compile them: `$XLA_SIM_TPU_PYTHON`, or this Python if it has jax."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compiled import Compile
from xla_sim.compiler.cache import Cache
from xla_sim.compiler.pool import TpuUnavailable, probe, python
from xla_sim.compiler.results import CompileRequest, CompileResult
from xla_sim.compiler.scheduler import Limits, compile_all

# LLVM's optimisations make programs that step a few times slower, not faster. The graphs that rules read are those before XLA optimises.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
os.environ.setdefault("XLA_SIM_NO_INSTALL", "1")  # a test that means to make the TPU compiler's environment says so
PROGRAMS = Path(__file__).parent / "helpers" / "tpu_programs.py"


@pytest.fixture(scope="session")
def tpu_python() -> str:
    """The Python that has jax and libtpu; a test that needs it is skipped with the reason when there is none."""
    try:
        probe()
    except TpuUnavailable as error:
        pytest.skip(str(error))
    return python()


@pytest.fixture(scope="session")
def lower(tpu_python: str) -> Callable[..., None]:
    """Write programs of tpu_programs.py into a folder."""

    def run(folder: Path, *sizes: str) -> None:
        done = subprocess.run(
            [tpu_python, str(PROGRAMS), str(folder), *sizes], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture(scope="session")
def graphs(lower: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a .pb file for every program."""
    folder = tmp_path_factory.mktemp("graphs")
    lower(folder)
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def compiled(graphs: Path, cache: Cache) -> Compile:
    """Compile programs by name, each once in a session."""

    def run(*names: str, topology: str = "v5e", **request: Any) -> list[CompileResult]:
        requests = [CompileRequest(name, graphs / f"{name}.pb", topology, **request) for name in names]
        return compile_all(requests, Limits(seconds=300), cache)

    return run


@pytest.fixture
def command(tpu_python: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m xla_sim …`` in `tmp_path`, with a cache of its own."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "XLA_SIM_CACHE": str(tmp_path / "cache"), "XLA_SIM_TPU_PYTHON": tpu_python, **environment}
        env["PYTHONPATH"] = os.pathsep.join(path for path in (environment.get("PYTHONPATH"), *sys.path) if path)
        return subprocess.run(
            [sys.executable, "-m", "xla_sim", *words],
            cwd=tmp_path,
            env=env,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run
