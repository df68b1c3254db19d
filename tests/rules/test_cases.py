"""Every case gives the findings that its folder's expected.json asks for, and nothing that it forbids.

A case is one small program as a user would write it. The folder beside this file is ours; the other, beside the project,
holds the first specimens and may be missing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_cases import compare, observe
from xla_sim.trace import Execution, Finding, Graph, Location, Step, Trace

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"own": Path(__file__).resolve().parent / "cases", "shared": ROOT.parent / "shared" / "cases"}


def _cases() -> list[Any]:
    found = []
    for name, folder in FOLDERS.items():
        listing = folder / "expected.json"
        if not listing.is_file():
            reason = f"{folder} has no expected.json"
            found.append(pytest.param(folder, {}, id=name, marks=pytest.mark.skip(reason=reason)))
            continue
        for file, expected in json.loads(listing.read_text(encoding="utf-8")).items():
            found.append(pytest.param(folder / file, expected, id=f"{name}/{file.removesuffix('.py')}"))
    return found


@pytest.mark.parametrize(("program", "expected"), _cases())
def test_case(program: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    needs = expected.get("needs", "")
    if needs and not _here(needs):
        pytest.skip(f"needs {needs}, which this environment hasn't")
    trace = observe(program, expected, tmp_path)
    hits, wrong = compare(trace, expected)
    assert not wrong, "\n".join(
        [*wrong, "", *(f"{f.severity} {f.location} {f.rule}: {f.message}" for f in trace.findings)]
    )
    assert hits == len(expected.get("must", []))


def _here(needs: str) -> bool:
    """Whether this environment has a package, such as "accelerate", or a version of it: "torch_xla>=2.7"."""
    package, _, least = needs.partition(">=")
    if importlib.util.find_spec(package) is None:
        return False
    numbers = [[int(n) for n in v.split(".")[:2]] for v in (importlib.metadata.version(package), least) if v]
    return numbers[0] >= numbers[-1]


def test_every_rule_has_cases_that_it_must_flag_and_must_not() -> None:
    expected = json.loads((FOLDERS["own"] / "expected.json").read_text(encoding="utf-8"))
    flagged: dict[str, set[str]] = {}
    for file, entry in expected.items():
        for wanted in entry["must"]:
            flagged.setdefault(wanted["rule"], set()).add(file)
    families = {
        "graph-recompile": "recompile", "missing-step": "missing", "never-on-xla": "never", "growing-graph": "growing",
        "unaligned-batch": "batch", "host-sync": "sync", "cpu-fallback": "fallback", "large-transfer": "transfer",
        "stale-optimizer": "stale", "frozen-parameters": "frozen", "missing-zero-grad": "zero_grad", "broken-tie": "tie",
        "nonfinite": "nonfinite", "device-checkpoint": "checkpoint", "wide-dtype": "wide",
        "host-mismatch": "mismatch",
    }  # fmt: skip
    for rule, family in families.items():
        correct = [file for file in expected if file.startswith(family) and file.endswith("_ok.py")]
        assert len(flagged[rule]) >= 2, f"{rule} has {len(flagged[rule])} programs that it must flag"
        assert len(correct) >= 2, f"{rule} has {len(correct)} programs close to it that are correct"


def test_a_case_is_judged_by_every_key_of_its_entry(tmp_path: Path) -> None:
    here, there = Location("train.py", 4), Location("train.py", 9)
    sync = Finding("host-sync", "XLA201", "warning", "reads in lib.py:7 and lib.py:8", "ask its authors", here)
    step = Step(1, True, here, 1.0, executions=(Execution("a1", "sync", here, True),), backwards=1)
    graph = Graph("a1", 1, 1, 1, "sync", here, 2, 3, 0.1, "graphs/a1.pb")
    trace = Trace(tmp_path, ("train.py",), 0, "", {}, 1.0, timeline=(step,), graphs=(graph,), findings=(sync,))
    wish = {"rule": "host-sync", "line": 4, "mentions": ["lib.py:7", "lib.py:8"], "not_mentions": ["torch_xla.sync()"]}
    right = {"must": [wish], "steps": 1, "compiles": 1, "compiles_after_warmup": 0}
    assert compare(trace, right) == (1, [])
    assert compare(trace, {**right, "steps": 2})[1] == ["1 steps, expected 2"]
    assert compare(trace, {"compiles_after_warmup": 1})[1] == ["0 compilations after warm-up, expected 1"]
    assert compare(trace, {"graphs_kept": True})[1] == ["0 of 1 graphs were kept: "]
    for other in (wish, {**wish, "not_mentions": ["Ask its"]}, {**wish, "mentions": ["lib.py:7", "lib.py:9"]}):
        assert compare(trace, {"must": [wish, other]}) == (1, [f"missed {json.dumps(other)}"])  # one finding, one wish
    both = replace(trace, findings=(sync, replace(sync, location=there)))
    assert compare(both, {"must": [{"rule": "host-sync"}, {"rule": "host-sync", "line": 4}]}) == (2, [])
    stopped = replace(trace, exit=-15, ending="was stopped after 2 s (--timeout)")
    assert compare(stopped, {"timeout": 2}) == (0, [])
    assert compare(stopped, {}) == (0, ["ended with exit status -15, expected 0"])
