"""From the command line to an answer by the real TPU compiler. Skipped where the compiler's Python isn't given."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import xla_sim
from xla_sim.cli.main import main
from xla_sim.compiler.chips import find_topology
from xla_sim.compiler.pool import TpuUnavailable, probe
from xla_sim.compiler.results import CompileRequest
from xla_sim.compiler.scheduler import Limits, compile_all
from xla_sim.fit.question import Question, answer, prepare
from xla_sim.fit.sharding import parse_mesh
from xla_sim.fit.tracing import trace
from xla_sim.fit.wording import notes

HERE = Path(__file__).parent
os.environ.setdefault("PJRT_DEVICE", "CPU")
try:
    probe()
except TpuUnavailable as error:
    pytest.skip(f"{error} (set XLA_SIM_TPU_PYTHON)", allow_module_level=True)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_SIM_CACHE", str(tmp_path / "cache"))


def fit(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and fit.json."""
    code = main(["fit", *arguments])
    path = Path("reports/xla_fit/fit.json")
    return code, json.loads(path.read_text()) if path.exists() else {}


def ask(function: Any, layers: int | None, folder: Path, code: bool = True) -> tuple[Question, Any]:
    plan, graph = trace(function, "fit_models:plan", layers=layers)
    question = Question(plan, graph, find_topology("v5e:2x2"), parse_mesh("fsdp=4"), code=code)
    return question, prepare(question, folder)


@dataclass(frozen=True)
class Asked:
    """One question, asked with code, which takes half a minute to generate: what the command printed and wrote."""

    folder: Path
    code: int
    printed: str

    def found(self, name: str = "reports/xla_fit/fit.json") -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.folder / name).read_text())
        return values


@pytest.fixture(scope="module")
def with_code(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    folder = tmp_path_factory.mktemp("with_code")
    arguments = ("fit_models:plan_long", "--topology", "v5e:2x2", "--mesh", "fsdp=4", "--json", "copy.json", "--code")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        patch.setenv("XLA_SIM_CACHE", str(folder / "cache"))
        return Asked(folder, main(["fit", *arguments]), printed.getvalue())


def test_an_answer_accounts_for_every_byte_of_a_chip(with_code: Asked) -> None:
    found = with_code.found()
    assert with_code.code == 0
    assert found["code_generated"]
    assert found["hbm"]["code"] > 0
    assert found == with_code.found("copy.json")
    assert found["status"] == "ok"
    assert found["mesh"] == {"fsdp": 4}
    hbm, expected = found["hbm"], found["expected"]
    assert sum(hbm[key] for key in hbm if key not in ("capacity", "total")) == hbm["total"]
    for part in ("parameters", "optimizer", "gradients"):
        assert hbm[part] == pytest.approx(expected[part], rel=0.01)
    for part in ("parameters", "optimizer", "batch"):
        assert found["elements"][part] == expected[part]
    assert expected["parameters"] == found["parameters"]  # four bytes each, on four chips
    assert {one["kind"] for one in found["collectives"]} >= {"all-gather"}
    assert found["bound"]["seconds"] > 0
    scores = 64 // 4 * 4 * 1024 * 1024 * 2  # batch, heads, length and length again, in bfloat16 at least
    assert hbm["activations"] >= scores
    largest = next(one for one in found["buffers"] if one["part"] == "activations")
    assert largest["logical"] >= scores
    line = (HERE / "fit_models.py").read_text().splitlines()[largest["location"]["line"] - 1]
    assert "softmax" in line or "scores" in line
    assert found["hardware"] == {"accelerator": "v5litepod-4", "runtime": "v2-alpha-tpuv5-lite", "mesh": "fsdp=4"}
    assert "fits" in with_code.printed


@pytest.mark.parametrize(
    ("word", "plan", "tolerance"), [("free", "plan_freeing", 0.02), ("keep", "plan_decoder", 0.05)]
)
def test_the_answer_is_that_of_the_same_program_run_on_virtual_devices(
    word: str, plan: str, tolerance: float, tmp_path: Path
) -> None:
    environment = {**os.environ, "CPU_NUM_DEVICES": "4"}
    command = [
        sys.executable,
        "-m",
        "xla_sim",
        "run",
        "--quiet",
        "--fail-on",
        "never",
        "--out",
        "run",
        str(HERE / "spmd_decoder.py"),
        word,
    ]
    subprocess.run(command, env=environment, check=True)
    report = json.loads(Path("run/report.json").read_text())
    step = max(report["graphs"], key=lambda graph: graph["executions"])
    question, planned = ask(getattr(__import__("fit_models"), plan), None, tmp_path, code=False)
    ran = CompileRequest("run", Path("run") / step["hlo"], "v5e:2x2", 4, code=False)
    fitted, real = compile_all([planned, ran])
    assert fitted.hbm is not None
    assert real.hbm is not None
    assert fitted.hbm.arguments == pytest.approx(real.hbm.arguments, rel=0.01)
    assert fitted.hbm.outputs == real.hbm.outputs
    assert fitted.hbm.total == pytest.approx(real.hbm.total, rel=tolerance)
    if word == "free":  # where the gradients stay, the sharding of what they are views of is the compiler's choice
        assert {one.kind: one.count for one in fitted.collectives} == {one.kind: one.count for one in real.collectives}
    assert answer(question, fitted).total == fitted.hbm.total


def test_without_code_the_answer_lacks_the_code_and_nothing_else(with_code: Asked) -> None:
    traced = with_code.folder / "reports" / "xla_fit"
    code, short = fit("--traced", str(traced), "--topology", "v5e:2x2", "--mesh", "fsdp=4")
    full = with_code.found()
    assert (code, short["status"]) == (0, "ok")
    assert full["hbm"]["code"] > 0
    assert short["hbm"] == {**full["hbm"], "code": 0, "total": full["hbm"]["total"] - full["hbm"]["code"]}
    for same in ("buffers", "collectives", "bound"):
        assert short[same] == full[same]


def test_without_code_too_big_is_too_big_and_what_fits_says_what_is_missing() -> None:
    code, found = fit("fit_models:plan_too_large", "--topology", "v5e:2x2")
    assert (code, found["status"]) == (1, "oom")
    assert [one["code"] for one in found["findings"]] == ["TPU502"]
    code, found = fit("fit_models:plan_decoder", "--topology", "v5e:2x2")
    assert (code, found["status"], found["hbm"]["code"], found["code_generated"]) == (0, "ok", 0, False)
    assert found["notes"][0] == (
        "code was not generated: its bytes aren't in the total (15.74 GiB are left for them), "
        "and a kernel that can't be generated isn't known yet; --code tells"
    )


def test_a_collective_in_several_pieces_counts_once(tmp_path: Path) -> None:
    """The compiler overlaps each gather with a product: its start, its steps and its end are in fusions of their own."""
    _, request = ask(__import__("fit_models").plan_forward, None, tmp_path, code=False)
    (result,) = compile_all([request])
    moved = {one.kind: (one.count, one.bytes) for one in result.collectives}
    assert moved == {"all-gather": (6, 6 * 2048 * 2048 * 2), "all-reduce": (1, 4)}


def test_a_gather_that_is_written_as_a_sum_of_padded_shards_is_no_sum(tmp_path: Path) -> None:
    """How the compiler gathers on v5p; the bytes are those of the gathers that it makes on v5e."""
    plan, graph = trace(__import__("fit_models").plan_forward, "fit_models:plan_forward", batch_size=16384)
    question = Question(plan, graph, find_topology("v5p:4x4x4"), parse_mesh("fsdp=64"), code=False)
    (result,) = compile_all([prepare(question, tmp_path)])
    moved = {one.kind: (one.count, one.bytes) for one in result.collectives}
    gathers = "all-gather-by-all-reduce"
    assert moved[gathers][1] == 6 * 2048 * 2048 * 2
    assert moved["all-reduce"] == (1, 4)
    assert f"{moved[gathers][0]} of the gathers add up shards that are padded with zeros" in " ".join(
        notes(answer(question, result))
    )


def test_a_model_that_does_not_fit_says_where_the_memory_goes_and_what_would_help() -> None:
    code, found = fit("fit_models:plan_too_large", "--topology", "v5e:2x2")
    assert code == 1
    assert found["status"] == "oom"
    assert [one["code"] for one in found["findings"]] == ["TPU502"]
    assert found["hbm"]["total"] > found["hbm"]["capacity"]
    held = 16 * 16384**2 * 4 // 4
    assert found["expected"] == {
        "parameters": held,
        "optimizer": 2 * held,
        "gradients": 2 * held,
        "batch": 8 * 16384 * 4,
    }
    assert any("twice the chips hold half of that each" in note for note in found["notes"])


def test_the_smallest_slice_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = fit("fit_models:plan_too_large", "--topology", "v5e", "--search")
    assert code == 0
    rows = {row["chips"]: row["status"] for row in found["search"]["rows"]}
    smallest = found["chips"]
    assert rows[smallest] == "ok"
    assert all(status == "oom" for chips, status in rows.items() if chips < smallest)
    assert smallest // 2 in rows
    assert found["search"]["answer"] == (
        f"the smallest v5e slice that fits a batch of 32 is {found['topology']}, with --mesh fsdp={smallest}; "
        "fit_models:plan_too_large has no parameter batch_size, so no other batch was tried"
    )


def test_the_largest_batch_is_found_and_known_the_next_time(capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for _ in range(2):  # on one line, which the graphs know as the outermost of their frames
        runs.append((*fit("fit_models:plan_wide", "--topology", "v5e:2x2", "--search"), capsys.readouterr()))
    (code, found, told), (again, known, quiet) = runs
    assert code == again == 0
    rows = found["search"]["rows"]
    sizes = {row["batch_size"]: row["status"] for row in rows}
    best = max(size for size, status in sizes.items() if status == "ok")
    above = min(size for size, status in sizes.items() if status == "oom")
    assert found["batch_size"] == best < above <= best * 9 / 8
    assert all(status == ("ok" if size <= best else "oom") for size, status in sizes.items())
    totals = [row["hbm"]["total"] for row in rows]
    assert totals == sorted(totals)
    assert found["hbm"]["total"] == next(row["hbm"]["total"] for row in rows if row["batch_size"] == best)
    answer = f"a batch of {best} fits on v5e:2x2 ({best // 4} for each of 4 parts of the batch), {above} doesn't"
    assert (found["search"]["answer"], found["search"]["complete"]) == (answer, True)
    assert answer in told.out
    assert f"batch {best} on v5e:2x2: fits, " in told.err
    assert json.loads(Path("reports/xla_fit/plan.json").read_text())["batch_size"] == best  # what --traced would read
    assert [row["cached"] for row in known["search"]["rows"]] == [True] * len(rows)
    assert known["search"]["answer"] == answer
    assert "compiled" not in quiet.err


def test_a_search_that_is_interrupted_tells_what_it_knows() -> None:
    command = [sys.executable, "-m", "xla_sim", "fit", "fit_models:plan_wide", "--topology", "v5e:2x2", "--search"]
    paths = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any(line.startswith("try 1: batch 1048576 on v5e:2x2: fits") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert errors.endswith("xla_sim fit: interrupted; what was compiled is kept, the same command goes on from there\n")
    found = json.loads(Path("reports/xla_fit/fit.json").read_text())
    assert not found["search"]["complete"]
    assert found["search"]["answer"] == "interrupted after 1 try; a batch of 1048576 fits on v5e:2x2"
    assert found["search"]["answer"] in out
    assert len(list(Path(os.environ["XLA_SIM_CACHE"]).glob("*/*.json"))) == 1


def test_a_search_ends_at_a_compilation_without_a_verdict() -> None:
    code, found = fit("fit_models:plan_wide", "--topology", "v5e:2x2", "--search", "--timeout", "0.2")
    assert (code, found["status"], found["search"]["complete"]) == (1, "timeout", False)
    assert found["search"]["answer"] == (
        "the search ended at a batch of 1048576 on v5e:2x2: no verdict (no answer within 0.2 s)"
    )


def test_the_memory_limit_counts_the_process_that_is_stopped_before_code(tmp_path: Path) -> None:
    """It is a process below the one that the worker started."""
    _, request = ask(__import__("fit_models").plan_long, None, tmp_path, code=False)
    (free,) = compile_all([request])
    (result,) = compile_all([request], Limits(memory=free.peak_rss - 64 * 2**20))
    assert (free.status, result.status) == ("ok", "crashed")
    assert result.message.startswith("the compilation took more than ")
    code, found = fit("fit_models:plan_decoder", "--topology", "v5e:2x2", "--memory", "64MiB")
    assert (code, found["status"]) == (1, "crashed")


def test_a_step_that_reads_a_value_is_a_finding_at_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = fit("fit_models:plan_reading", "--topology", "v5e:2x2")
    assert code == 1
    (finding,) = found["findings"]
    assert (finding["code"], finding["severity"]) == ("XLA201", "error")
    source = (HERE / "fit_models.py").read_text().splitlines()
    assert "if x.sum() > 0" in source[finding["location"]["line"] - 1]
    assert (
        finding["message"]
        == "this line needs the value of a tensor, as item(), float(), print or an if do, and a step that is only planned has none"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "fit needs a function, as package.module:function, or target in [tool.xla_sim.fit]; see fit --help"),
        (["fit_models:plan_decoder"], 2, "fit needs --topology, as v5e:8x8, or topology in [tool.xla_sim.fit]"),
        (
            ["fit_models.plan_decoder", "--topology", "v5e:2x2"],
            2,
            "'fit_models.plan_decoder' is not package.module:function",
        ),
        (["no_such:plan", "--topology", "v5e:2x2"], 2, "there is no module no_such"),
        (["fit_models:nothing", "--topology", "v5e:2x2"], 2, "fit_models has no function nothing"),
        (["fit_models:plan_decoder", "--topology", "v5e"], 2, "v5e is a family of chips: name a slice"),
        (
            ["fit_models:plan_decoder", "--topology", "v5e:2x2", "--mesh", "fsdp=8"],
            2,
            "mesh fsdp=8 is 8 chips, v5e:2x2 has 4",
        ),
        (["fit_models:plan_decoder", "--topology", "v5e:2x2", "--batch-size", "6"], 2, "its first dimension is 6"),
        (["fit_models:plan_decoder", "--topology", "v5e:2x2", "--checkpoint", "nope.*"], 2, "no module of that name"),
        (["fit_models:tokens", "--topology", "v5e:2x2"], 2, "must return (model, optimizer, batch)"),
        (
            ["fit_models:loss", "--topology", "v5e:2x2"],
            2,
            "fit calls fit_models:loss(): missing a required argument: 'model'",
        ),
        (["fit_models:plan_decoder", "--topology", "v5e:2x2", "--out", "/dev/null"], 4, "fit: /dev/null: File exists"),
        (["fit_models:plan_broken", "--topology", "v5e:2x2"], 3, "the function failed, see above"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    arguments: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(*arguments)[0] == code
    assert sentence in capsys.readouterr().err
    assert not Path("reports/xla_fit/fit.json").exists()


def test_the_configuration_gives_what_the_command_line_leaves_out(tmp_path: Path) -> None:
    Path("pyproject.toml").write_text(
        '[tool.xla_sim.fit]\ntarget = "fit_models:plan_decoder"\ntopology = "v5e:2x2"\nmesh = "fsdp=2,tensor=2"\n'
        '[tool.xla_sim.fit.parameters]\n"blocks.*.qkv.weight" = ["tensor", "fsdp"]\n'
        '[tool.xla_sim.fit.activations]\n"blocks.*" = ["fsdp", "", "tensor"]\n'
    )
    code, found = fit()
    assert (code, found["mesh"], found["batch_size"]) == (0, {"fsdp": 2, "tensor": 2}, 16)
    Path("pyproject.toml").write_text('[tool.xla_sim.fit]\ntarget = "fit_models:plan_decoder"\ntopologie = "v5e:2x2"\n')
    assert main(["fit"]) == 2


def test_a_trace_is_enough_where_torch_is_not_installed(tmp_path: Path) -> None:
    assert fit("fit_models:plan_decoder", "--topology", "v5e:2x2")[0] == 0
    before = json.loads(Path("reports/xla_fit/fit.json").read_text())
    python = os.environ.get("XLA_SIM_TPU_PYTHON", sys.executable)
    command = [python, "-m", "xla_sim", "fit", "--traced", "reports/xla_fit", "--topology", "v5e:2x2", "--out", "again"]
    package = str(Path(xla_sim.__file__).parents[1])  # that environment has what the package needs, and not the package
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": package})
    after = json.loads(Path("again/fit.json").read_text())
    assert {**after, "seconds": 0} == {**before, "seconds": 0}
