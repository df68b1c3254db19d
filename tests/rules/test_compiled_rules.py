"""The compiler's findings, whole: from programs that are refused, too large, padded, held twice, or that kill it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compiled import Compile
from xla_sim.compiler.results import Buffer, CompileResult, Padding
from xla_sim.rules.judging import RunReport, judge_compiled
from xla_sim.trace import Finding, Location

GIB, MIB = 2**30, 2**20


def line_of(text: str) -> int:
    lines = (Path(__file__).parents[1] / "helpers" / "tpu_programs.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def findings(results: Sequence[CompileResult], run: RunReport = RunReport()) -> list[Finding]:  # noqa: B008 (frozen)
    return judge_compiled(results, run)


def test_a_program_without_fault_has_no_finding(compiled: Compile) -> None:
    assert findings(compiled("matmul", "donated_update", "inference", "convolution", "narrow_and_long")) == []


def test_a_graph_that_the_compiler_refuses(compiled: Compile) -> None:
    (finding,) = findings(compiled("complex128_fft"))
    assert (finding.rule, finding.code, finding.severity) == ("compile-rejected", "TPU501", "error")
    assert "the TPU compiler refuses the graph for v5e: " in finding.message
    assert "Unexpected operand type for FFT: c128[64,64]" in finding.evidence["words"]
    assert finding.location.file.endswith("tpu_programs.py")
    assert finding.location.line == line_of("return jnp.fft.fft(x * 2.0)")
    assert finding.evidence["graphs"] == ["complex128_fft"] and finding.evidence["chips"] == ["v5e:2x2"]


def test_a_graph_that_needs_more_hbm_than_there_is(compiled: Compile) -> None:
    v5e = compiled("too_large")
    v6e = compiled("too_large", topology="v6e")
    (finding,) = findings([*v5e, *v6e])
    assert (finding.rule, finding.code, finding.severity) == ("hbm-overflow", "TPU502", "error")
    needed = v5e[0].hbm
    assert needed is not None and 128 <= needed.total / GIB < 257
    assert finding.message.startswith(
        f"the graph needs {needed.total / GIB:.2f} GiB of HBM on v5e, where a program can have 15.75 GiB, and "
    )
    assert (
        " of HBM on v6e, where a program can have 31.25 GiB; the largest: f32[4096,4096,2048], 128.0 GiB ("
        in finding.message
    )
    assert finding.location.file.endswith("tpu_programs.py") and finding.location.function == "too_large"
    largest = finding.evidence["buffers"][0]
    assert largest["logical"] == largest["padded"] == 4096 * 4096 * 2048 * 4
    assert largest["shape"].startswith("f32[4096,4096,2048]{") and largest["line"] == finding.location.line


def test_a_compiler_that_dies_leaves_a_reproducer_and_the_command(compiled: Compile, graphs: Path) -> None:
    dead, alive = compiled("svd", "matmul")
    assert (dead.status, alive.status) == ("crashed", "ok")
    (finding,) = findings([dead, alive])
    assert (finding.rule, finding.code, finding.severity) == ("compiler-crash", "TPU503", "error")
    graph = graphs / "svd.pb"
    assert finding.message == (
        "the TPU compiler died on graph svd for v5e: the compiler's process was ended by SIGABRT: "
        "Check failed: buffer != nullptr ((null) vs. (null)) (shape.h:843)"
    )
    assert "TransposeFolding" in finding.evidence["words"]  # the pass it died in, for whoever reads the bug report
    assert finding.evidence["reproducer"] == str(graph)
    assert finding.evidence["command"] == f"python -m xla_sim compile --topology v5e {graph}"
    assert finding.evidence["command"] in finding.fix and "https://github.com/openxla/xla/issues" in finding.fix


def test_parameters_that_are_updated_and_not_donated(compiled: Compile) -> None:
    (result,) = compiled("two_updates")
    (finding,) = findings([result])
    assert (finding.rule, finding.code, finding.severity) == ("no-donation", "TPU505", "warning")
    assert finding.message == (
        "2 tensors that the step updates (2.0 MiB of its 2.1 MiB of arguments) are held twice on v5e: their buffers aren't donated"
    )
    assert finding.evidence["bytes"] == 2 * 512 * 512 * 4


def test_parameters_with_shardings_that_are_not_donated(compiled: Compile) -> None:
    results = compiled("sharded_kept", "sharded", topology="v5e:2x4", partitions=8)
    (finding,) = findings(results)
    assert (finding.rule, finding.evidence["graphs"]) == ("no-donation", ["sharded_kept"])
    assert finding.evidence["bytes"] == 2 * 1024 * 1024 * 4 // 8  # of one chip
    assert finding.message.startswith(
        "2 tensors that the step updates (1.0 MiB of its 1.5 MiB of arguments) are held twice on v5e:2x4"
    )


def padded_result(logical: int, padded: int) -> CompileResult:
    where = Location("model.py", 12, "forward")
    tensor = Buffer("fusion.3", "temporary", "f32[65536,8,4]{2,1,0:T(8,128)}", logical, padded, padded, location=where)
    return CompileResult("a" * 32, "v5e", "v5e:2x2", "ok", padding=Padding(logical, padded, (tensor,)))


def test_tiles_that_hold_mostly_nothing() -> None:
    (finding,) = findings([padded_result(8 * MIB, 256 * MIB)])
    assert (finding.rule, finding.code, finding.severity) == ("tile-padding", "TPU504", "warning")
    assert finding.message == (
        "tiles make 8.0 MiB of elements 256.0 MiB on v5e (32.0 times); "
        "most is lost in f32[65536,8,4], 256.0 MiB for 8.0 MiB of elements (model.py:12)"
    )
    assert (finding.location.file, finding.location.line) == ("model.py", 12)
    assert finding.evidence["tensors"][0]["shape"] == "f32[65536,8,4]{2,1,0:T(8,128)}"


def test_little_padding_is_no_finding() -> None:
    assert findings([padded_result(100 * MIB, 150 * MIB), padded_result(1000, 32000)]) == []


def of_run(rule: str, code: str, severity: str, message: str, **evidence: Any) -> dict[str, Any]:
    location = {"file": "train.py", "line": 9, "function": "step", "frames": []}
    return {
        "rule": rule,
        "code": code,
        "severity": severity,
        "message": message,
        "fix": "change it",
        "location": location,
        "evidence": evidence,
    }


def test_an_unaligned_batch_gains_the_rows_of_the_compiled_layout(compiled: Compile) -> None:
    (result,) = compiled("unaligned")
    run = RunReport((of_run("unaligned-batch", "XLA105", "info", "a batch of 65 is computed as 72 rows", batch=65),))
    (finding,) = findings([result], run)
    assert (
        finding.message
        == "a batch of 65 is computed as 72 rows; the compiler lays the batch of 65 out as 72 rows on v5e"
    )
    assert (finding.rule, finding.severity, finding.location.line) == ("unaligned-batch", "info", 9)
    assert finding.evidence["compiled_rows"] == {"v5e:2x2": 72}
    assert finding.evidence["layouts"]["v5e:2x2"].startswith("f32[65,128]{1,0:T(8,128)")


def test_a_wide_type_gains_its_price_from_compiling_both_ways(compiled: Compile) -> None:
    wide = compiled("float64_matmul")
    narrow = compiled("float64_matmul", narrow=True)
    assert (wide[0].status, narrow[0].status, narrow[0].narrowed) == ("ok", "ok", True)
    assert narrow[0].arguments[0].shape.startswith("f32[256,256]")
    run = RunReport((of_run("wide-dtype", "XLA401", "warning", "2 operations compute in float64", dtype="float64"),))
    (finding,) = findings([*wide, *narrow], run)
    assert finding.message.startswith(
        "2 operations compute in float64; on v5e the graph as it is, against the same in float32: "
    )
    (cost,) = finding.evidence["cost"]
    assert cost["wide"]["flops"] > cost["narrow"]["flops"] and cost["wide"]["data"] > cost["narrow"]["data"]
    ratio = cost["wide"]["flops"] / cost["narrow"]["flops"]
    assert f"{ratio:.1f} times the FLOP" in finding.message
    assert narrow[0].wide == ("float64",)
    both = [replace(narrow[0], wide=("float64", "int64"))]  # all are narrowed at once, which the finding has to say
    (finding,) = findings([*wide, *both], run)
    assert "; on v5e the graph as it is, against the same in float32 (with its int64 narrowed too): " in finding.message
    other = [replace(narrow[0], wide=("int64",))]  # a graph of another finding
    assert findings([*wide, *other], run) == []
