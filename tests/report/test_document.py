"""The report document: what it holds, that it keeps to the published schema, and that it stays small."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import samples
from xla_sim.report.content import schemas
from xla_sim.report.content.document import (
    DocumentError,
    all_findings,
    load_directory,
    load_document,
    to_document,
    to_json,
)
from xla_sim.report.content.step_rows import MOST_ENTRIES
from xla_sim.report.files import write_atomic
from xla_sim.trace import Location, Step

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema, which the simulator's test group lists")


def official(kind: str) -> Any:
    """The jsonschema package's validator of one of the published schemas."""
    referencing = pytest.importorskip("referencing")
    resources = [
        (f"{name}.schema.json", referencing.Resource.from_contents(schemas.schema(name))) for name in schemas.KINDS
    ]
    return jsonschema.Draft202012Validator(
        schemas.schema(kind), registry=referencing.Registry().with_resources(resources)
    )


def full(tmp_path: Path) -> dict[str, Any]:
    document = to_document(
        samples.rich_trace(tmp_path),
        [samples.host_sync(), samples.recompile()],
        {"file": "xla_sim.baseline.json", "known": 2},
        samples.ABOUT,
    )
    return {**document, "compile": samples.compiled(), "fit": samples.fitted()}


def test_the_contract_of_a_run(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [samples.host_sync()], about=samples.ABOUT)
    mark = {"file": "src/toy/train.py", "line": 45, "function": "train_step"}
    timeline, graphs = document.pop("timeline"), document.pop("graphs")
    assert document == {
        "schema": 1,
        **samples.ABOUT,
        "program": {"argv": ["src/toy/train.py", "--steps", "20"], "exit": 0, "ending": "", "seconds": 4.9},
        "stack": {"python": "3.12.11", "torch": "2.9.0", "torch_xla": "2.9.0", "device": "CPU"},
        "steps": 20,
        "compiles": 2,
        "compiles_after_warmup": 0,
        "executions": 40,
        "warmup_steps": 2,
        "fallbacks": [],
        "optimizers": [],
        "facts": [],
        "unknown": [],
        "baseline": None,
        "metrics": "Metric: CompileTime\n  TotalSamples: 2\n",
        "findings": [
            {
                "rule": "host-sync",
                "code": "XLA201",
                "severity": "warning",
                "message": "loss.item() reads a value inside the step, 20 times: each cuts the graph and waits",
                "fix": "read it after torch_xla.sync(), every N steps, or in xm.add_step_closure",
                "location": {
                    "file": "src/toy/train.py",
                    "line": 41,
                    "function": "train_step",
                    "frames": [{"file": "/home/ada/src/toy/train.py", "line": 41, "function": "train_step"}],
                },
                "evidence": {"count": 20, "steps": [1, 20]},
            }
        ],
    }
    assert [(one["first"], one["last"], one["compiled"], one["executed"], one["cuts"]) for one in timeline] == [
        (1, 1, 2, 2, 1),
        (2, 20, 0, 38, 19),
    ]
    assert timeline[1]["executions"] == [
        {
            "graph": samples.GRAPH_A,
            "cause": "read",
            "compiled": False,
            "location": {"file": "src/toy/train.py", "line": 41, "function": "train_step"},
            "count": 1,
        },
        {"graph": samples.GRAPH_B, "cause": "sync", "compiled": False, "location": mark, "count": 1},
    ]
    assert graphs[0] == {
        "hash": samples.GRAPH_A,
        "first_step": 1,
        "compiles": 1,
        "executions": 20,
        "cause": "sync",
        "location": mark,
        "hlo": "",
        "text": "",
        "seconds": 0.21,
        "input_count": 7,
        "output_count": 6,
        "inputs": None,
        "outputs": None,
        "ops": None,
        "opcodes": None,
        "differences": None,
    }


def test_documents_keep_to_the_published_schemas(tmp_path: Path) -> None:
    document = json.loads(to_json(full(tmp_path)))
    for kind, part in (("report", document), ("compile", document["compile"]), ("fit", document["fit"])):
        jsonschema.Draft202012Validator.check_schema(schemas.schema(kind))
        assert [error.message for error in official(kind).iter_errors(part)] == []
        assert schemas.problems(part, kind) == []


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of everything in a document."""
    inner: list[tuple[Any, ...]] = [path] if path else []
    items: Any = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        inner += _paths(item, (*path, key))
    return inner


def test_the_check_without_packages_agrees_with_jsonschema(tmp_path: Path) -> None:
    """Each value of a full document is removed, and replaced by values of other types: both must judge alike."""
    document = json.loads(to_json(full(tmp_path)))
    validator, wrong = official("report"), 0
    changes: list[Any] = ["remove", None, "fatal", -1, 1.5, True, [], {}]
    for number, path in enumerate(_paths(document)):
        for change in (changes[number % 8], changes[(number + 3) % 8]):  # all of them would take half a minute
            mutated = copy.deepcopy(document)
            owner: Any = mutated
            for key in path[:-1]:
                owner = owner[key]
            if change == "remove":
                del owner[path[-1]]
            else:
                owner[path[-1]] = change
            expected = validator.is_valid(mutated)
            assert (schemas.problem(mutated, "report") is None) == expected, (path, change)
            wrong += not expected
    assert wrong > 200, "the mutations must break the document, or nothing was compared"


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda d: d.pop("findings"), "the document has no 'findings'"),
        (lambda d: d.update(schema=0), "schema is 0, but must be 1"),
        (
            lambda d: d["findings"][0].update(severity="fatal"),
            'findings[0].severity is "fatal", but must be one of info, warning, error',
        ),
        (
            lambda d: d["findings"][0]["location"].update(line="41"),
            'findings[0].location.line is "41", but must be of type integer',
        ),
    ],
)
def test_a_wrong_document_is_refused_by_a_sentence(tmp_path: Path, break_it: Any, sentence: str) -> None:
    document = to_document(samples.trace(tmp_path), [samples.host_sync()])
    break_it(document)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(DocumentError) as refused:
        load_document(path)
    assert str(refused.value) == f"{path} is no report document of xla_sim: {sentence}"


def test_a_document_of_a_newer_version_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**to_document(samples.trace(tmp_path), []), "schema": 2, "verdict": "new"}))
    with pytest.raises(DocumentError) as refused:
        load_document(path)
    assert str(refused.value) == (
        f"{path} was made by a newer xla_sim (schema 2; this one reads 1): update xla_sim/, or run the command that made it again"
    )


def test_a_torn_or_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"report\.json can't be read: No such file or directory"):
        load_document(tmp_path / "report.json")
    (tmp_path / "report.json").write_text('{"schema": 1, "prog')
    with pytest.raises(DocumentError, match=r"report\.json isn't JSON .*: run the command that made it again"):
        load_document(tmp_path / "report.json")
    (tmp_path / "report.json").unlink()
    with pytest.raises(DocumentError, match=r"holds no report\.json, compile\.json or fit\.json: make one with python"):
        load_directory(tmp_path)


def test_a_directory_is_merged_from_what_each_stage_left(tmp_path: Path) -> None:
    run = to_document(samples.rich_trace(tmp_path), [samples.host_sync()])
    write_atomic(tmp_path / "report.json", to_json({**run, "fit": samples.fitted()}))
    write_atomic(tmp_path / "compile.json", to_json(samples.compiled()))
    document = load_directory(tmp_path)
    assert document == {**run, "compile": samples.compiled()}, "a fit.json that is gone leaves the report too"
    assert [finding["rule"] for finding in all_findings(document)] == ["hbm-overflow", "host-sync"]


def test_what_was_compiled_for_another_run_is_left_out(tmp_path: Path) -> None:
    """`run` again, after a change: two of the three graphs that were compiled are gone, then all of them."""
    write_atomic(tmp_path / "compile.json", to_json(samples.compiled()))
    for kept in ((samples.GRAPH_A,), ()):
        graphs = tuple(samples.graph(hash, 1, 1) for hash in (*kept, "e5" * 16))
        write_atomic(tmp_path / "report.json", to_json(to_document(samples.trace(tmp_path, graphs=graphs), [])))
        document = load_directory(tmp_path)
        assert [one["graph"] for one in document.get("compile", {"results": ()})["results"]] == list(kept)
        assert list(all_findings(document)) == [], "hbm-overflow was said of another graph"


def test_a_finding_to_which_the_compiler_adds_its_figures_stands_once(tmp_path: Path) -> None:
    run = dataclasses.replace(samples.host_sync(), rule="unaligned-batch", code="XLA105", severity="info")
    elsewhere = dataclasses.replace(run, location=Location("src/toy/eval.py", 41))
    known = dataclasses.replace(run, message="with the compiler's figure").as_dict()
    document = to_document(samples.trace(tmp_path), [run, elsewhere])
    document["compile"] = {"schema": 1, "results": [], "findings": [known]}
    assert [(one["location"]["file"], one["message"]) for one in all_findings(document)] == [
        ("src/toy/eval.py", run.message),
        ("src/toy/train.py", "with the compiler's figure"),
    ]


def test_a_fit_stands_alone(tmp_path: Path) -> None:
    write_atomic(tmp_path / "fit.json", to_json(samples.fitted()))
    document = load_directory(tmp_path)
    assert document == {"schema": 1, "program": None, "findings": [], "fit": samples.fitted()}
    assert [error.message for error in official("report").iter_errors(document)] == []


def test_what_strict_json_cannot_hold_is_written_in_words(tmp_path: Path) -> None:
    awkward = dataclasses.replace(
        samples.host_sync(),
        message="line one\r\nline two\x1b[31m\udce9\u202e",
        evidence={"loss": math.nan, "norm": -math.inf, "where": Path("x"), 3: (1, 2)},
    )
    document = to_document(samples.trace(tmp_path), [awkward])
    finding = json.loads(to_json(document))["findings"][0]
    assert finding["message"] == "line one\nline two\\x1b[31m\\xe9\\u202e"
    assert finding["evidence"] == {"loss": "nan", "norm": "-inf", "where": "x", "3": [1, 2]}
    assert official("report").is_valid(document)


def test_a_thousand_steps_stay_small(tmp_path: Path) -> None:
    alike = [samples.step(index, samples.run(samples.GRAPH_A)) for index in range(1, 1001)]
    document = to_document(samples.trace(tmp_path, timeline=tuple(alike)), [])
    assert [(one["first"], one["last"], one["executed"]) for one in document["timeline"]] == [(1, 1000, 1000)]
    assert len(to_json(document)) < 5_000


def test_steps_that_all_differ_are_bounded_and_still_add_up(tmp_path: Path) -> None:
    different = [
        samples.step(index, samples.run(f"{index:032x}", compiled=True), to_device=index) for index in range(1, 5001)
    ]
    document = to_document(samples.trace(tmp_path, timeline=tuple(different), graphs=()), [])
    timeline = document["timeline"]
    assert len(timeline) == MOST_ENTRIES
    assert (timeline[0]["first"], timeline[-1]["last"]) == (1, 5000)
    assert all(one["last"] + 1 == other["first"] for one, other in itertools.pairwise(timeline))
    assert sum(one["compiled"] for one in timeline) == sum(one["executed"] for one in timeline) == 5000
    assert [one["last"] - one["first"] + 1 for one in timeline if one.get("summed")] == [5000 - MOST_ENTRIES + 1]
    assert official("report").is_valid(document)


def test_steps_are_not_joined_over_a_gap_or_over_different_bytes(tmp_path: Path) -> None:
    steps = (
        samples.step(1, samples.run(samples.GRAPH_A), to_device=None),
        samples.step(2, samples.run(samples.GRAPH_A), to_device=8),
        samples.step(3, samples.run(samples.GRAPH_A), to_device=None),
        samples.step(4, samples.run(samples.GRAPH_A), to_device=16),
        samples.step(6, samples.run(samples.GRAPH_A), to_device=16),
        Step(7, True, Location(), 1.0),
    )
    document = to_document(samples.trace(tmp_path, timeline=steps), [])
    assert [(one["first"], one["last"], one["to_device"]) for one in document["timeline"]] == [
        (1, 3, 8),
        (4, 4, 16),
        (6, 6, 16),
    ]


def _graph_file(path: Path, rows: int) -> None:
    """The HLO of ``x @ w`` with that many rows."""
    from xla_sim.hlo import protos

    module = protos.parse("Module", b"")
    module.name, module.entry_computation_id = "SyncTensorsGraph.7", 1
    add = module.computations.add(id=1, name="entry", root_id=3).instructions.add
    x, w, y = (
        {"element_type": kind, "dimensions": dims}
        for kind, dims in ((11, [rows, 128]), (11, [128, 10]), (16, [rows, 10]))
    )
    add(id=1, name="p0.1", opcode="parameter", parameter_number=0, shape=x)
    add(
        id=2,
        name="p1.2",
        opcode="parameter",
        parameter_number=1,
        shape=w,
        metadata={"source_file": "train.py", "source_line": 5},
    )
    add(id=3, name="dot.3", opcode="dot", operand_ids=[1, 2], shape=y, metadata={"op_type": "aten__mm"})
    module.buffer_donor.entries.add(parameter_number=1)
    path.write_bytes(module.SerializeToString())


def test_graphs_are_opened_and_compared(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    _graph_file(tmp_path / "a.pb", 64)
    _graph_file(tmp_path / "c.pb", 24)
    (tmp_path / "torn.pb").write_bytes(b"\xff\xff\xff")
    elsewhere = dataclasses.replace(samples.graph("d4" * 16, 1, 1, "c.pb"), location=samples.HERE)
    graphs = (
        samples.graph(samples.GRAPH_A, 1, 1, "a.pb"),
        samples.graph(samples.GRAPH_B, 1, 1, "torn.pb"),
        samples.graph(samples.GRAPH_C, 12, 1, "c.pb"),
        elsewhere,
    )
    parameters = (
        ("head.weight", (128, 10), "float32"),
        ("head.bias", (10,), "float32"),
        ("half", (64, 128), "bfloat16"),
    )
    document = to_document(samples.trace(tmp_path, graphs=graphs, parameters=parameters), [])
    nowhere, five = {"file": "", "line": 0, "function": ""}, {"file": "train.py", "line": 5, "function": ""}
    opened = {key: document["graphs"][0][key] for key in ("inputs", "outputs", "ops", "opcodes")}
    assert opened == {
        "inputs": [
            {
                "number": 0,
                "name": "p0.1",
                "shape": "f32[64,128]",
                "bytes": 32768,
                "donated": False,
                "location": nowhere,
                "shape_of": [],
            },
            {
                "number": 1,
                "name": "p1.2",
                "shape": "f32[128,10]",
                "bytes": 5120,
                "donated": True,
                "location": five,
                "shape_of": ["head.weight"],
            },
        ],
        "outputs": [{"shape": "bf16[64,10]", "bytes": 1280}],
        "ops": [{"op": "aten::mm", "count": 1}],
        "opcodes": [{"op": "parameter", "count": 2}, {"op": "dot", "count": 1}],
    }
    assert document["graphs"][1]["inputs"] is None, "a torn graph stays in the report, as unread"
    assert [graph["differences"] for graph in document["graphs"]] == [
        None,
        None,
        {"from": samples.GRAPH_A, "changes": ["input 0: f32[64,128] became f32[24,128]"]},
        None,
    ], "a graph is compared with earlier ones from its own line"
    assert official("report").is_valid(document)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    write_atomic(path, "old")
    with pytest.raises(TypeError):
        write_atomic(path, 3)  # type: ignore[arg-type]
    blocked = tmp_path / "new" / "folder"
    blocked.mkdir()
    (blocked / "inside").touch()
    with pytest.raises(OSError):
        write_atomic(blocked, "a file can't replace a folder")
    assert path.read_text() == "old"
    assert sorted(os.listdir(path.parent)) == ["folder", "report.json"], "nothing unfinished is left"
    write_atomic(path, "a lone surrogate \udce9 is no reason to fail\n")
    assert path.read_bytes() == b"a lone surrogate \\udce9 is no reason to fail\n"
