"""The GitHub action, in a folder that knows nothing of the template: its scripts run, in bash, on a real program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from github_steps import Job, action_steps, run_job

XLA_SIM = Path(__file__).parents[2] / "xla-sim"

CLEAN = """\
import sys
import torch
import torch_xla

device = torch_xla.device()
model = torch.nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 8).to(device)).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print("arguments", sys.argv[1:])
"""
READS = CLEAN.replace("    optimizer.step()\n", "    optimizer.step()\n    print(loss.item())\n")


def user_python(folder: Path, *options: str) -> str:
    """A user's Python: it has torch and torch_xla, and the action puts xla-sim beside them."""
    subprocess.run([sys.executable, "-m", "venv", *options, str(folder)], check=True)
    (site,) = folder.glob("lib/*/site-packages")
    (site / "torch_xla_is_there.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return str(folder / "bin" / "python")


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One without pip where uv is there, which is quicker; else one with pip."""
    return user_python(tmp_path_factory.mktemp("user") / "venv", *(["--without-pip"] if shutil.which("uv") else []))


@pytest.fixture
def act(python: str, tmp_path: Path) -> Callable[..., Job]:
    """Use the action in a folder with train.py."""

    def act(source: str, **inputs: str) -> Job:
        folder, temp = tmp_path / "repository", tmp_path / "temp"
        temp.mkdir()
        folder.mkdir()
        (folder / "train.py").write_text(source, encoding="utf-8")
        steps, given = action_steps(XLA_SIM / "action.yml")
        given |= {"python": python, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        cache = {"XLA_SIM_CACHE": str(tmp_path / "cache"), "GITHUB_ACTION_PATH": str(XLA_SIM)}
        return run_job(steps, given, folder, temp, **cache)

    return act


def test_a_clean_program_passes_on_the_chips_that_are_named(
    act: Callable[..., Job], tpu_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_SIM_TPU_PYTHON", tpu_python)
    job = act(CLEAN, program="-m train --steps 3", chips="v5e,v6e")
    assert (job.exit, job.outputs["verdict"]) == (0, {"exit-code": "0"}), job.output
    assert "arguments ['--steps', '3']" in job.output
    assert job.outputs["compile"] == {"exit-code": "0"}
    assert job.summary.startswith("## xla_sim: ")
    assert "v5e" in job.summary
    assert "v6e" in job.summary
    assert "::warning" not in job.output
    assert list(job.used) == ["actions/upload-artifact"]


def test_a_value_read_in_the_step_fails_the_job_after_all_is_told(act: Callable[..., Job], tmp_path: Path) -> None:
    job = act(READS, program="train.py", code_scanning="true")
    assert (job.exit, job.outputs["verdict"]) == (1, {"exit-code": "1"}), job.output
    line = READS.splitlines().index("    print(loss.item())") + 1
    assert f"\n::warning file=train.py,line={line},title=XLA201 host-sync::" in job.output
    assert "XLA201" in job.summary
    assert job.ran[-1] == "Fail where the simulation or the compiler said so"
    sarif = "reports/xla_sim/xla_sim.sarif"
    assert job.used == {
        "actions/upload-artifact": {"name": "xla_sim", "path": "reports/xla_sim"},
        "github/codeql-action/upload-sarif": {"sarif_file": sarif, "category": "xla_sim"},
    }
    assert '"ruleId": "XLA201"' in (tmp_path / "repository" / sarif).read_text(encoding="utf-8")


def test_fail_on_decides_and_no_word_of_the_program_is_expanded(act: Callable[..., Job], tmp_path: Path) -> None:
    program = "train.py 'two words' \"it's\" $HOME `touch stolen`\n  ; touch stolen && $(touch stolen) # x *"
    job = act(READS, program=program, fail_on="error", out="seen here")
    assert job.exit == 0, job.output
    assert "XLA201" in job.summary
    assert job.used["actions/upload-artifact"]["path"] == "seen here"
    words = ["two words", "it's", "$HOME", "`touch", "stolen`", ";", "touch", "stolen", "&&", "$(touch", "stolen)"]
    assert f"arguments {[*words, '#', 'x', '*']}" in job.output
    assert not (tmp_path / "repository" / "stolen").exists()


def test_an_open_quote_is_told(act: Callable[..., Job], tmp_path: Path) -> None:
    with_pip = user_python(tmp_path / "venv")
    job = act(CLEAN, program="train.py 'oops", python=with_pip)
    assert "xla-sim: the input `program` is not what a shell would read: No closing quotation\n" in job.output
    assert "Nothing was simulated into reports/xla_sim, so there is no verdict to show.\n" in job.output
    assert (job.exit != 0, job.outputs["verdict"], job.used) == (True, {"exit-code": "2"}, {})


def test_a_program_that_raises_is_told_and_fails_the_job(act: Callable[..., Job]) -> None:
    job = act(CLEAN + "raise RuntimeError('the disk of the cluster is gone')\n", program="train.py", chips="v5e")
    assert job.exit == 3, job.output
    assert "RuntimeError: the disk of the cluster is gone" in job.output
    assert "The program failed with exit status 1" in job.summary
    assert "compile" not in job.outputs


def test_without_the_compiler_the_simulation_is_still_told(
    act: Callable[..., Job], python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_SIM_TPU_PYTHON", python)
    job = act(READS, program="train.py", chips="v5e")
    assert job.outputs["compile"] == {"exit-code": "4"}, job.output
    assert (job.exit, job.outputs["verdict"]) == (4, {"exit-code": "4"})
    assert "XLA201" in job.summary


def test_without_a_program_what_is_there_is_published(act: Callable[..., Job]) -> None:
    job = act(CLEAN)
    assert job.exit == 0
    assert job.ran == [
        "Put the verdict on the run's page and on the lines of the change",
        "Fail where the simulation or the compiler said so",
    ]
