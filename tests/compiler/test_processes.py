"""Compilations in processes of their own: limits, crashes, a worker that is killed, Ctrl-C, two runs at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compiled import Compile
from xla_sim.compiler import pool
from xla_sim.compiler.results import CompileRequest
from xla_sim.compiler.scheduler import Interrupted, Limits, compile_all

PACKAGE = str(Path(pool.__file__).parents[2])


def request(graphs: Path, name: str, topology: str = "v5e") -> CompileRequest:
    return CompileRequest(name, graphs / f"{name}.pb", topology)


def test_a_compilation_that_takes_too_long_is_ended(graphs: Path, compiled: Compile) -> None:
    (result,) = compile_all([request(graphs, "convolution")], Limits(seconds=0.05))
    assert (result.status, result.message) == ("timeout", "no answer within 0.05 s")
    assert result.command == f"python -m xla_sim compile --topology v5e {graphs / 'convolution.pb'}"
    assert result.reproducer == str(graphs / "convolution.pb")


def test_a_compilation_that_takes_too_much_memory_is_ended(graphs: Path) -> None:
    (result,) = compile_all([request(graphs, "convolution")], Limits(memory=64 * 2**20))
    assert (result.status, result.message) == (
        "crashed",
        "the compilation took more than 0.1 GiB of this machine's memory",
    )


def test_a_compiler_that_dies_or_is_ended_leaves_no_files_behind(graphs: Path, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from xla_sim.compiler.scheduler import compile_all, Limits;"
        "from xla_sim.compiler.results import CompileRequest;"
        f"one = lambda name: CompileRequest(name, Path({str(graphs)!r}) / (name + '.pb'), 'v5e');"
        "print([compile_all([one(name)], limits)[0].status for name, limits in"
        " (('svd', Limits()), ('convolution', Limits(seconds=0.5)))])"
    )
    env = {**os.environ, "PYTHONPATH": PACKAGE, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env)
    assert done.stdout == "['crashed', 'timeout']\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_temporary_files_whose_name_is_odd(graphs: Path, tmp_path: Path) -> None:
    """libtpu is told where to write in a flag, which ends at a blank and has to be UTF-8."""
    code = (
        "from pathlib import Path; from xla_sim.compiler.scheduler import compile_all; from xla_sim.compiler.results import CompileRequest;"
        f"print(compile_all([CompileRequest('m', Path({str(graphs / 'matmul.pb')!r}), 'v5e')])[0].hbm.arguments)"
    )
    odd = os.path.join(os.fsencode(tmp_path), b'a b "c\xff')
    os.mkdir(odd)
    env = {**os.environ, "PYTHONPATH": PACKAGE, "TMPDIR": os.fsdecode(odd)}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env)
    assert done.stdout == f"{4 * (1024 * 512 + 512 * 256)}\n", done.stderr
    assert os.listdir(odd) == []


def test_results_come_in_the_order_of_the_requests_and_the_longest_starts_first(graphs: Path) -> None:
    started: list[str] = []
    names = ["matmul", "svd", "update"]
    results = compile_all(
        [request(graphs, name) for name in names],
        jobs=1,
        progress=lambda event, number, one: started.append(one.graph) if event == "start" else None,
    )
    assert [(one.graph, one.status) for one in results] == [("matmul", "ok"), ("svd", "crashed"), ("update", "ok")]
    assert started == sorted(names, key=lambda name: -(graphs / f"{name}.pb").stat().st_size)


def test_a_killed_worker_costs_what_it_was_doing_and_no_more(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take the worker itself; another one does the rest."""
    launched: list[subprocess.Popen[bytes]] = []
    launch = pool.Pool._launch

    def remember(self: pool.Pool) -> subprocess.Popen[bytes]:
        launched.append(launch(self))
        return launched[-1]

    monkeypatch.setattr(pool.Pool, "_launch", remember)

    def kill_first(event: str, number: int, one: CompileRequest) -> None:
        if event == "start" and number == 0:
            os.kill(launched[0].pid, signal.SIGKILL)

    first, second = compile_all(
        [request(graphs, "convolution"), request(graphs, "matmul")], jobs=1, progress=kill_first
    )
    assert first.status == "crashed" and "ended by SIGKILL" in first.message
    assert second.status == "ok" and len(launched) == 2


def test_ctrl_c_leaves_what_is_done(graphs: Path) -> None:
    def interrupt(event: str, number: int, one: CompileRequest) -> None:
        if event == "end":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        compile_all([request(graphs, name) for name in ("matmul", "update")], jobs=1, progress=interrupt)
    assert sorted(result.graph if result else "" for result in caught.value.results) in (["", "matmul"], ["", "update"])


def test_no_process_survives_its_caller(graphs: Path, tmp_path: Path) -> None:
    """Killed without a word, the command leaves neither worker nor compiler behind."""
    code = (
        "import sys; from pathlib import Path; from xla_sim.compiler.scheduler import compile_all;"
        "from xla_sim.compiler.results import CompileRequest;"
        "say = lambda event, number, one: print(event, flush=True);"
        f"compile_all([CompileRequest('c', Path({str(graphs / 'convolution.pb')!r}), 'v5e')], progress=say)"
    )
    mark = f"XLA_SIM_TEST_MARK={tmp_path}"
    env = {**os.environ, "PYTHONPATH": PACKAGE, "XLA_SIM_TEST_MARK": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
    assert caller.stdout is not None and caller.stdout.readline() == "start\n"
    assert len(_marked(mark)) >= 2
    caller.kill()
    caller.wait()
    deadline = time.monotonic() + 20
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _marked(mark) == []


def _marked(mark: str) -> list[int]:
    """Processes that were started with that variable and are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_two_runs_at_once_share_one_cache(graphs: Path, tmp_path: Path) -> None:
    """libtpu's lock file is no obstacle, and what both write at the same time is whole."""
    code = (
        "import sys, json; from pathlib import Path; from xla_sim.compiler.scheduler import compile_all;"
        "from xla_sim.compiler.results import CompileRequest; from xla_sim.compiler.cache import Cache;"
        f"results = compile_all([CompileRequest(n, Path({str(graphs)!r}) / (n + '.pb'), 'v5e') for n in ('matmul', 'update')],"
        f" cache=Cache(Path({str(tmp_path / 'cache')!r})));"
        "print(json.dumps([(r.status, r.cached) for r in results]))"
    )
    env = {**os.environ, "PYTHONPATH": PACKAGE}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)
    ]
    answers = [json.loads(run.communicate()[0]) for run in runs]
    assert [[status for status, _ in answer] for answer in answers] == [["ok", "ok"]] * 2
    third = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env)
    assert json.loads(third.stdout) == [["ok", True], ["ok", True]]
