"""Every case gives the findings that its folder's expected.json asks for, and nothing that it forbids.

A case is one small program as a user would write it. The folder beside this file is ours; the other, beside the project,
holds the first specimens and may be missing.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from judge_cases import compare, observe

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
