"""`report --compare PROMISED SEEN`: what a laptop promised against what was seen later."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import samples
from xla_sim.cli import report_command as cli
from xla_sim.report.compare import Line, compare
from xla_sim.report.content.document import to_document, to_json
from xla_sim.report.files import write_atomic
from xla_sim.trace import Fact, Finding

PROJECT = Path(__file__).parents[2] / "xla-sim"
TRAINING = """
import sys, torch, torch_xla
device = torch_xla.device()
model = torch.nn.Linear(128, 16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(24 if step == 4 and "ragged" in sys.argv else 64, 128).to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""


def main(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    args = parser.parse_args(["report", *arguments])
    return int(args.main(args))


def directory(path: Path, findings: list[Finding], compiled: bool = False, **changes: Any) -> str:
    write_atomic(path / "report.json", to_json(to_document(samples.trace(path, **changes), findings)))
    if compiled:
        document = {**samples.compiled(), "findings": []}
        document["results"] = document["results"][:1]
        bound = {"seconds": 0.02, "compute_seconds": 0.02, "memory_seconds": 0.001, "mxu_share": 1.0}
        document["results"] = [
            {**document["results"][0], "graph": hash, "bound": bound} for hash in (samples.GRAPH_A, samples.GRAPH_B)
        ]
        write_atomic(path / "compile.json", to_json(document))
    return str(path)


def test_a_run_keeps_its_own_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    laptop = directory(tmp_path / "laptop", [samples.host_sync()])
    assert main("--compare", laptop, laptop) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        f"{laptop} {laptop}",
        "compilations after warm-up 0 0 kept",
        "compilations 2 2 kept",
        "executions per step 2 2 kept",
        "moved to the device per step 16.4 kB 16.4 kB kept",
        "moved back per step 4 B 4 B kept",
        "a step took 100 ms 100 ms noted",
        "findings in both 1 1 kept",
        "",
        "every promise that could be told was kept",
    ]


def test_what_a_tpu_did_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It compiled again, ran one graph more per step, and needed more memory; no step was faster than its bound."""
    laptop = directory(tmp_path / "laptop", [samples.recompile()], compiled=True)
    steps = [
        samples.step(index, samples.run("x"), samples.run("y"), samples.run("z", compiled=index == 9))
        for index in range(1, 21)
    ]
    tpu = directory(
        tmp_path / "tpu",
        [samples.host_sync(), samples.recompile()],
        timeline=tuple(steps),
        stack={"torch_xla": "2.9.0", "device": "TPU"},
        facts=(Fact("memory", 20, samples.HERE, {"peak": 9 * samples.GIB}),),
    )
    assert main("--compare", laptop, tpu, "--format", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["kept"] is False
    assert [Line(**line) for line in told["lines"]] == [
        Line("compilations after warm-up", "0", "1", "broken"),
        Line("compilations", "2", "2", "kept"),
        Line("executions per step", "2", "3", "broken"),
        Line("moved to the device per step", "16.4 kB", "16.4 kB", "kept"),
        Line("moved back per step", "4 B", "4 B", "kept"),
        Line("a step on v5e:2x2", "at least 40 ms", "100 ms", "kept"),
        Line("HBM of a chip", "3 GiB", "9 GiB", "broken"),
        Line("findings in both", "1", "1", "kept"),
        Line("XLA201 host-sync at src/toy/train.py:41", "no", "yes", "broken"),
    ]


def test_a_bound_says_nothing_of_a_laptop(tmp_path: Path) -> None:
    """The step that is faster than a TPU's bound ran on a CPU: no promise is broken."""
    documents = []
    for name in ("one", "two"):
        directory(tmp_path / name, [], compiled=True)
        documents.append(cli_document(tmp_path / name))
    lines = compare(*documents)
    assert Line("a step on v5e:2x2", "at least 40 ms", "100 ms, no TPU", "unknown") in lines


def cli_document(path: Path) -> dict[str, Any]:
    from xla_sim.report.content.document import load_directory

    return load_directory(path)


def test_a_step_faster_than_its_bound_breaks_it(tmp_path: Path) -> None:
    """A bound that is beaten is wrong, and somebody should know."""
    directory(tmp_path / "laptop", [], compiled=True)
    fast = [dataclasses.replace(samples.step(index, samples.run("x")), end=index * 0.001) for index in range(1, 21)]
    fast[2] = dataclasses.replace(fast[2], executions=(samples.run("y"),))
    tpu = to_document(samples.trace(tmp_path, timeline=tuple(fast), stack={"device": "TPU"}), [])
    lines = compare(cli_document(tmp_path / "laptop"), tpu)
    assert Line("a step on v5e:2x2", "at least 40 ms", "1 ms", "broken") in lines


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name a run directory, as reports/xla_sim, or two with --compare"),
        (
            ("DIR", "--compare", "DIR", "DIR"),
            "--compare takes two directories and nothing else, with --format terminal or json",
        ),
    ],
)
def test_wrong_commands_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    laptop = directory(tmp_path / "laptop", [])
    assert main(*(laptop if argument == "DIR" else argument for argument in arguments)) == 2
    assert capsys.readouterr().err == f"xla_sim report: {sentence}\n"


@pytest.mark.skipif(find_spec("torch_xla") is None, reason="needs torch_xla, for two real runs")
def test_two_real_runs(tmp_path: Path) -> None:
    """The same program with one short batch more compiles again after warm-up, and that is what the comparison says."""
    (tmp_path / "train.py").write_text(TRAINING)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PJRT_DEVICE": "CPU"}
    for name, more in (("laptop", []), ("later", ["ragged"])):
        command = [sys.executable, "-m", "xla_sim", "run", "--out", name, "--fail-on", "never", "train.py", *more]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    command = [sys.executable, "-m", "xla_sim", "report", "--compare", "laptop", "later", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    lines = {
        line["what"]: (line["promised"], line["seen"], line["verdict"]) for line in json.loads(done.stdout)["lines"]
    }
    assert done.returncode == 1
    assert lines["compilations after warm-up"] == ("0", "1", "broken")
    assert lines["executions per step"] == ("1", "1", "kept")
    assert lines["XLA101 graph-recompile at train.py:12"] == ("no", "yes", "broken")
