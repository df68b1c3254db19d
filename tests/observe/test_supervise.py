"""Whatever ends a program, what was seen until then is reported."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import xla_sim
from xla_sim.observe.supervise import CannotRun, supervise_script
from xla_sim.rules.judging import judge
from xla_sim.trace import Trace

TRAIN = """
import os, signal, sys, time
import torch
import torch_xla

device = torch_xla.device()
model = torch.nn.Linear(16, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps):
    for step in range(steps):
        x = torch.randn(8, 16).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
"""


def observe(folder: Path, ending: str, *arguments: str, timeout: float | None = None) -> Trace:
    """Run three steps and then ``ending``, from a process that is warm already."""
    program = folder / "program.py"
    program.write_text(TRAIN + "\ntrain(3)\n" + textwrap.dedent(ending), encoding="utf-8")
    return judge(supervise_script([str(program), *arguments], folder / "out", timeout=timeout, warm=True))


def test_a_program_that_ends_well(tmp_path: Path) -> None:
    trace = observe(tmp_path, "assert sys.argv[1:] == ['--steps', '3'] and __name__ == '__main__'", "--steps", "3")
    assert (trace.exit, trace.ending, trace.steps, trace.compiles, trace.executions) == (0, "", 3, 1, 3)
    assert trace.findings == ()
    assert [(step.index, step.marked, step.backwards, step.optimizers) for step in trace.timeline] == [
        (1, True, 1, (1,)),
        (2, True, 1, (1,)),
        (3, True, 1, (1,)),
    ]
    assert "CompileTime" in trace.metrics
    assert not (tmp_path / "out" / "dump").exists()


def test_a_program_that_raises(tmp_path: Path) -> None:
    trace = observe(tmp_path, "raise ValueError('no such layer')")
    assert (trace.exit, trace.steps) == (1, 3)
    told = (tmp_path / "out" / "error.txt").read_text(encoding="utf-8").splitlines()
    assert told[0] == "Traceback (most recent call last):"
    assert told[1].strip().startswith(f'File "{tmp_path / "program.py"}"')  # no frame of ours above the user's
    assert told[-1] == "ValueError: no such layer"


@pytest.mark.parametrize(
    ("ending", "status"), [("sys.exit()", 0), ("sys.exit(7)", 7), ("sys.exit('bad flag')", 1), ("os._exit(5)", 5)]
)
def test_a_program_that_exits(tmp_path: Path, ending: str, status: int) -> None:
    trace = observe(tmp_path, ending)
    assert (trace.exit, trace.steps, trace.executions) == (status, 3, 3)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("os.abort()", "was killed by SIGABRT"),
    ],
)
def test_a_program_that_is_killed(tmp_path: Path, ending: str, said: str) -> None:
    trace = observe(tmp_path, ending)
    assert trace.exit is not None and trace.exit < 0
    assert trace.ending.startswith(said)
    assert (trace.steps, trace.executions) == (3, 3)
    assert trace.unknown == ("the program did not end by itself: compile times and torch_xla's metrics are missing",)


def test_a_step_that_was_cut_off_is_in_the_trace(tmp_path: Path) -> None:
    ending = "(torch.ones(8, device=device) * 2).sum().item()\nos.kill(os.getpid(), signal.SIGKILL)"
    trace = observe(tmp_path, ending)
    last = trace.timeline[-1]
    assert (last.index, last.marked, [execution.cause for execution in last.executions]) == (4, False, ["read"])
    assert last.executions[0].location.line == len(TRAIN.splitlines()) + 3


def test_a_program_that_hangs(tmp_path: Path) -> None:
    started = time.monotonic()
    trace = observe(tmp_path, "signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)", timeout=8)
    assert time.monotonic() - started < 60
    assert trace.ending == "was stopped after 8 s (--timeout)"
    assert trace.exit != 0
    assert trace.steps == 3


def test_a_program_that_forks_is_seen_once(tmp_path: Path) -> None:
    trace = observe(tmp_path, "pid = os.fork()\nif not pid:\n    os._exit(0)\nos.waitpid(pid, 0)\ntrain(2)")
    assert (trace.exit, trace.steps) == (0, 5)


def test_a_program_that_prints_a_lot(tmp_path: Path) -> None:
    noise = "for _ in range(200):\n    os.write(2, b'x' * (1 << 16) + b'\\n')"  # 13 MB from native code
    trace = observe(tmp_path, noise)
    assert trace.exit == 0
    assert (tmp_path / "out" / "native.log").stat().st_size < 5 << 20


def test_the_run_directory_does_not_grow_with_the_steps(tmp_path: Path) -> None:
    def size(steps: int) -> int:
        observe(tmp_path, f"train({steps})")
        return sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())

    from xla_sim.observe.recorder import STORED

    assert size(3 * STORED) < size(STORED + 1000) * 1.05
    trace = observe(tmp_path, f"train({STORED + 497})")
    assert trace.steps == STORED + 500


def test_a_second_run_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    observe(tmp_path, "model = torch.nn.Linear(16, 4).to(device)\ntrain(1)")
    (tmp_path / "out" / "notes.txt").write_text("mine", encoding="utf-8")
    trace = observe(tmp_path, "")
    assert [path.stem for path in (tmp_path / "out" / "graphs").iterdir()] == [trace.graphs[0].hash]
    assert (tmp_path / "out" / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    with pytest.raises(CannotRun, match=r"can't write the run directory .*out: .*\. Choose another with --out\."):
        observe(tmp_path, "")


def command(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    package = Path(xla_sim.__file__).parent.parent
    environ = {**os.environ, "PYTHONPATH": str(package), "NO_COLOR": "1", "COLUMNS": "200"}
    line = [sys.executable, "-m", "xla_sim", *arguments]
    return subprocess.run(
        line, check=False, cwd=cwd, env=environ, capture_output=True, text=True, timeout=600, **options
    )


def test_the_exit_codes_and_the_report_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        TRAIN.replace("        loss.backward()", "        print(loss.item())\n        loss.backward()")
        + "\ntrain(4)\nraise SystemExit(3)\n",
        encoding="utf-8",
    )
    done = command("run", "--json", "copy.json", "bad.py", cwd=tmp_path)
    assert done.returncode == 3
    report = json.loads((tmp_path / "copy.json").read_text(encoding="utf-8"))
    assert report == json.loads((tmp_path / "reports" / "xla_sim" / "report.json").read_text(encoding="utf-8"))
    assert report["program"]["exit"] == 3
    assert [finding["rule"] for finding in report["findings"]] == ["host-sync"]
    assert report["findings"][0]["location"]["line"] == 15
    assert "cpu_client" not in done.stdout + done.stderr


def test_an_interrupted_command_still_reports(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(
        TRAIN + "\ntrain(3)\nprint('trained', flush=True)\ntime.sleep(600)\n", encoding="utf-8"
    )
    package = Path(xla_sim.__file__).parent.parent
    environ = {**os.environ, "PYTHONPATH": str(package), "NO_COLOR": "1"}
    line = [sys.executable, "-m", "xla_sim", "run", "long.py"]
    running = subprocess.Popen(
        line, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "trained\n"
    os.killpg(running.pid, signal.SIGINT)  # as the terminal does
    running.communicate(timeout=60)
    assert running.returncode == 3
    report = json.loads((tmp_path / "reports" / "xla_sim" / "report.json").read_text(encoding="utf-8"))
    assert (report["steps"], report["program"]["ending"]) == (3, "was interrupted")


def test_a_full_disk_does_not_end_the_program(tmp_path: Path) -> None:
    """Files may grow to 64 KB only, which the event log reaches; the program goes on and its exit is known."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

    (tmp_path / "many.py").write_text(TRAIN + "\ntrain(400)\nprint('done')\n", encoding="utf-8")
    done = command("run", "--quiet", "many.py", cwd=tmp_path, preexec_fn=limit)
    assert "done\n" in done.stdout
    assert done.returncode in (0, 4)
    assert "Traceback" not in done.stderr
