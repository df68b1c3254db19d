"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import xla_sim

TEST = """
import pytest
import torch
import torch_xla

def train(steps, read=False):
    device = torch_xla.device()
    model = torch.nn.Linear(16, 8).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        x = torch.randn(8, 16).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if read:
            loss.item()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    return float(loss)

def fails():
    raise ValueError("no such layer")

def test_used_here():
    train(1)                                    # XLA is in use in this process from now on

def test_run(xla_sim):
    trace = xla_sim.run(train, 4)
    assert (trace.steps, trace.compiles, trace.compiles_after_warmup) == (4, 2, 0)
    assert 0 < trace.result < 10

def test_failing_count(xla_sim):
    assert xla_sim.run(train, 4).compiles == 1

@pytest.mark.xla_sim(max_compiles=2, no_findings=True, max_executions_per_step=1)
def test_within_limits(xla_sim):
    xla_sim.run(train, 4)

@pytest.mark.xla_sim(no_host_sync=True)
def test_beyond_limits(xla_sim):
    xla_sim.run(train, 4, True)

def test_crash(xla_sim):
    xla_sim.run(fails)

def test_crash_on_purpose(xla_sim):
    assert xla_sim.run(fails, check=False).exit == 1

def test_local_function(xla_sim):
    steps = 2
    assert xla_sim.run(lambda: train(steps)).steps == 2
"""


def pytest_in(folder: Path, *arguments: str) -> str:
    package = Path(xla_sim.__file__).parent.parent
    environ = {**os.environ, "PYTHONPATH": str(package), "COLUMNS": "200"}
    (folder / "conftest.py").write_text('pytest_plugins = ["xla_sim.pytest_plugin"]\n', encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(line, check=False, cwd=folder, env=environ, capture_output=True, text=True, timeout=900)
    return done.stdout + done.stderr


def test_fixture_marker_and_assertions(tmp_path: Path) -> None:
    (tmp_path / "test_training.py").write_text(TEST, encoding="utf-8")
    said = pytest_in(tmp_path)
    assert "2 failed, 6 passed" in said and "1 error in" in said  # the limits are looked at when the test is over
    # a count shows the graphs it counts
    assert "assert 2 == 1" in said
    assert "compiles of the run:" in said
    assert "first at step 2, 1 compilations, 3 executions, sync at test_training.py:18" in said
    # a limit names the line
    assert (
        "no_host_sync, but test_training.py:15: XLA201 host-sync: `loss.item()` reads a value inside the step" in said
    )
    # a program that fails shows its own traceback
    assert "ValueError: no such layer" in said


def test_a_limit_that_does_not_exist(tmp_path: Path) -> None:
    test = "import pytest\n\n@pytest.mark.xla_sim(max_compile=2)\ndef test_it(xla_sim): ...\n"
    (tmp_path / "test_training.py").write_text(test, encoding="utf-8")
    assert "the marker xla_sim has no limit 'max_compile'; it has max_compiles, " in pytest_in(tmp_path)


def test_a_limit_on_nothing(tmp_path: Path) -> None:
    test = "import pytest\n\n@pytest.mark.xla_sim(max_compiles=2)\ndef test_it(xla_sim): ...\n"
    (tmp_path / "test_training.py").write_text(test, encoding="utf-8")
    assert "the marker xla_sim sets limits, but the test ran nothing through the fixture" in pytest_in(tmp_path)
