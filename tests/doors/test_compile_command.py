"""``python -m xla_sim compile`` as a person runs it: files, exit codes and sentences."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_directory(graphs: Path, tmp_path: Path) -> Path:
    """As `xla_sim run` leaves it, with the graphs of two programs."""
    folder = tmp_path / "run"
    (folder / "graphs").mkdir(parents=True)
    entries = []
    for number, name in enumerate(("matmul", "update")):
        shutil.copy(graphs / f"{name}.pb", folder / "graphs" / f"{name}.pb")
        entries.append(
            {"hash": name, "first_step": 1, "compiles": 1, "executions": 8 - number, "cause": "sync", "location": {"file": "train.py", "line": 9, "function": "step"},
             "hlo": f"graphs/{name}.pb"}
        )  # fmt: skip
    document = {
        "schema": 1,
        "program": {"argv": ["train.py"], "exit": 0},
        "stack": {"python": "3.12", "torch": "2.9.0", "torch_xla": "2.9.0"},
        "steps": 8,
        "compiles": 2,
        "compiles_after_warmup": 0,
        "executions": 15,
        "graphs": entries,
        "findings": [],
    }
    (folder / "report.json").write_text(json.dumps(document))
    return folder


def test_a_run_directory_gains_a_chip_table(command: Command, run_directory: Path, tmp_path: Path) -> None:
    done = command("compile", "run", "--chips", "v5e,v6e", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert document == json.loads((run_directory / "compile.json").read_text())
    assert [(one["graph"], one["chip"], one["topology"], one["status"]) for one in document["results"]] == [
        ("matmul", "v5e", "v5e:2x2", "ok"),
        ("matmul", "v6e", "v6e:2x2", "ok"),
        ("update", "v5e", "v5e:2x2", "ok"),
        ("update", "v6e", "v6e:2x2", "ok"),
    ]
    first = document["results"][0]
    assert {"capacity", "arguments", "outputs", "aliased", "temporaries", "code", "total"} == set(first["hbm"])
    assert document["findings"] == [] and document["schema"] == 1 and document["compiler"]["libtpu"]
    for name in ("report.html", "summary.md", "report.json"):
        assert "accepted" in (run_directory / name).read_text() or name == "report.json"
    assert "accepted" in done.stdout and "v6e" in done.stdout
    again = command("compile", "run", "--chips", "v5e,v6e", "--json", "again.json")
    assert again.returncode == 0 and "compiled" not in again.stderr  # all from the cache
    assert all(one["cached"] for one in json.loads((tmp_path / "again.json").read_text())["results"])


def test_one_graph_is_a_file_and_needs_no_run(command: Command, graphs: Path, tmp_path: Path) -> None:
    """The command that a compiler-crash finding gives."""
    done = command("compile", "--topology", "v5e", str(graphs / "svd.pb"))
    assert done.returncode == 1
    assert "TPU503 compiler-crash" in done.stdout and "ended by SIGABRT" in done.stdout


def test_findings_set_the_exit_code_at_the_level_that_was_asked_for(
    command: Command, graphs: Path, tmp_path: Path
) -> None:
    words = ("compile", "--chips", "v5e", str(graphs / "two_updates.pb"))
    assert command(*words).returncode == 1
    assert command(*words, "--fail-on", "error").returncode == 0
    (tmp_path / "pyproject.toml").write_text('[tool.xla_sim]\nignore = ["no-donation"]\n')
    assert command(*words).returncode == 0


def test_the_chips_of_the_configuration_are_the_default(command: Command, graphs: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.xla_sim]\nchips = ["v6e"]\n')
    done = command("compile", str(graphs / "matmul.pb"), "--json", "out.json")
    assert [one["chip"] for one in json.loads((tmp_path / "out.json").read_text())["results"]] == ["v6e"], done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--chips", "v5q", "run"), "there is no chip 'v5q': did you mean 'v5p'? The chips are v4, v5e, v5p, v6e, v7x"),
        (("--topology", "v5e:2x4x2", "run"), "a topology of v5e has 2 dimensions, '2x4x2' does not: write it like 2x4, for example v5e:2x4"),
        (("--topology", "v5e:2x4", "--chips", "v5e", "run"), "give --chips or --topology, not both: a topology names its chip"),
        (("nowhere",), "there is no nowhere: make it with python -m xla_sim run --out nowhere SCRIPT"),
        (("run", "--graph", "ffff"), "no graph of run has a hash that begins with 'ffff'"),
        (("run/report.json",), "run/report.json is no graph (a serialized HloModuleProto): "),
        (("run", "--timeout", "0"), "argument --timeout: '0' is no number of seconds above 0"),
        (("run", "--memory", "lots"), "argument --memory: 'lots' is no size; write it like 8GiB or 8000000000"),
    ],
)  # fmt: skip
def test_a_wrong_command_is_answered_with_a_sentence(
    words: tuple[str, ...], sentence: str, command: Command, run_directory: Path
) -> None:
    done = command("compile", *words)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not (run_directory / "compile.json").exists()


def test_a_sharded_graph_and_a_slice_that_does_not_fit_it(command: Command, graphs: Path) -> None:
    done = command("compile", "--topology", "v5e:4x4", str(graphs / "sharded.pb"))
    assert done.returncode == 2
    assert (
        "graph sharded is sharded over 8 devices and v5e:4x4 has 16: name one with 8, for example v5e:2x4"
        in done.stderr
    )


def test_a_sharded_graph_finds_the_slice_of_its_size(command: Command, graphs: Path, tmp_path: Path) -> None:
    done = command("compile", "--chips", "v5e", str(graphs / "sharded.pb"), "--json", "out.json")
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert (result["topology"], result["chips"], result["status"]) == ("v5e:2x4", 8, "ok"), done.stderr
    assert {one["kind"] for one in result["collectives"]} >= {"all-gather"}


def test_graphs_that_are_gone(command: Command, run_directory: Path) -> None:
    shutil.rmtree(run_directory / "graphs")
    for words in (("compile", "run"), ("compile", "run", "--graph", "matmul")):
        done = command(*words)
        assert done.returncode == 2
        assert (
            done.stderr
            == "xla_sim compile: all 2 graphs of run/report.json are no longer on disk: run the program again\n"
        )


def test_a_libtpu_that_is_another_release(command: Command, run_directory: Path, tmp_path: Path) -> None:
    """One without the function that xla_sim calls, before the installed one on the path."""
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").touch()
    done = command("compile", "run", PYTHONPATH=str(tmp_path))
    assert done.returncode == 4 and done.stderr.count("\n") == 1
    assert "xla_sim compile: the TPU compiler can't be loaded: jaxlib " in done.stderr
    assert (
        " have no libtpu:get_library_path, and the extra `compiler` of xla-sim names releases that do " in done.stderr
    )
    assert not (run_directory / "compile.json").exists()


def test_a_limit_is_named_in_the_advice(command: Command, graphs: Path, tmp_path: Path) -> None:
    done = command("compile", str(graphs / "matmul.pb"), "--chips", "v5e", "--memory", "64MiB", "--json", "out.json")
    assert done.returncode == 1
    (finding,) = json.loads((tmp_path / "out.json").read_text())["findings"]
    assert finding["message"] == (
        "the TPU compiler was stopped on graph matmul for v5e: the compilation took more than 0.1 GiB of this machine's memory"
    )
    assert finding["fix"] == (
        f"repeat it with `python -m xla_sim compile --topology v5e:2x2 {graphs / 'matmul.pb'}` and a larger --memory; report it to "
        f"https://github.com/openxla/xla/issues with {graphs / 'matmul.pb'}, should no limit be enough"
    )


def test_an_empty_run_says_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = command("compile", "empty")
    assert done.returncode == 2 and done.stderr.startswith(
        "xla_sim compile: empty holds no graph: nothing was compiled on XLA"
    )


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("/nowhere/python", "and /nowhere/python doesn't start as a Python: "),
        (
            sys.executable,
            f"jaxlib, libtpu are not installed in {sys.executable}: `python -m xla_sim compile` makes that environment",
        ),
    ],
)
def test_without_the_compiler_it_says_so_in_one_sentence(
    python: str, sentence: str, command: Command, run_directory: Path
) -> None:
    if python == sys.executable and not _bare(python):
        pytest.skip("this Python has jaxlib and libtpu")
    done = command("compile", "run", XLA_SIM_TPU_PYTHON=python)
    assert done.returncode == 4
    assert done.stderr.startswith(
        "xla_sim compile: the TPU compiler needs Python 3.11 or newer with jax and libtpu on x86-64 Linux"
    )
    assert sentence in done.stderr and done.stderr.count("\n") == 1
    assert not (run_directory / "compile.json").exists()


def _bare(python: str) -> bool:
    return subprocess.run([python, "-c", "import jaxlib"], check=False, capture_output=True).returncode != 0


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64"), ("Windows", "AMD64")])
def test_a_machine_that_libtpu_has_no_wheel_for(
    system: str, machine: str, command: Command, run_directory: Path, tmp_path: Path
) -> None:
    """The platform is all that decides, so it is all that is changed here: by a sitecustomize of the test's own."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import platform\nplatform.system = lambda: {system!r}\nplatform.machine = lambda: {machine!r}\n"
    )
    code = "import runpy, sys; import sitecustomize; sys.argv[0] = 'xla_sim'; runpy.run_module('xla_sim', run_name='__main__')"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", code, "compile", "run"],
        cwd=tmp_path,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4
    assert done.stderr == (
        "xla_sim compile: the TPU compiler needs Python 3.11 or newer with jax and libtpu on x86-64 Linux, "
        f"and this is {system} on {machine}: use the dev container, or a Linux machine\n"
    )


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """A shell ignores SIGINT for what runs in the background, and so do the processes that are started there."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interrupt_leaves_a_valid_report_of_what_is_done(
    how: signal.Signals, run_directory: Path, graphs: Path, tmp_path: Path, tpu_python: str
) -> None:
    shutil.copy(graphs / "convolution.pb", run_directory / "graphs" / "matmul.pb")  # the larger graph starts first …
    env = {
        **os.environ,
        "XLA_SIM_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    words = [sys.executable, "-m", "xla_sim", "compile", "run", "--chips", "v5e,v6e", "--jobs", "1"]
    running = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    line = running.stderr.readline()
    assert line.startswith("[1/4] compiled ")
    time.sleep(0.3)
    running.send_signal(how)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 3
    assert "interrupted; 1 of 4 compilations are done and kept" in errors and "Traceback" not in errors
    document = json.loads((run_directory / "compile.json").read_text())
    assert [one["status"] for one in document["results"]] == ["ok"]


def test_a_report_that_cannot_be_written(command: Command, graphs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = command("compile", "--chips", "v5e", str(graphs / "matmul.pb"), "--json", "file/out.json")
    assert done.returncode == 4 and "the report can't be written to " in done.stderr and "Traceback" not in done.stderr
