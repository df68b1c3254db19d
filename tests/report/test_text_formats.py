"""The formats that other tools read: Markdown, GitHub's commands and SARIF."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import samples
from xla_sim.report import github, markdown, sarif
from xla_sim.report.content.document import empty, to_document
from xla_sim.trace import Frame, Location

AWKWARD = dataclasses.replace(
    samples.host_sync(),
    message="100% of <b>`x|y`</b>,\r\n[a](http://evil) __dunder__ \x1b[2J",
    location=Location("src/a b, 100%:[ü]`.py", 7, "f", (Frame("/opt/python/lib/x.py", 9, "g"),)),
)


def described() -> list[Any]:
    """What a rule tells of itself; no subclass of Rule, because those are found by whoever lists the rules."""
    page = "**Why a TPU cares**: it waits."
    title = "A value was read inside a step"
    return [
        SimpleNamespace(code="XLA201", name="host-sync", severity="warning", title=lambda: title, page=lambda: page)
    ]


def test_github_commands(tmp_path: Path) -> None:
    nowhere = dataclasses.replace(samples.host_sync(), severity="info", location=Location(), fix="")
    outside = dataclasses.replace(samples.host_sync(), location=Location("/opt/lib/x.py", 3))
    document = to_document(
        samples.trace(tmp_path), [nowhere, outside, samples.host_sync(), AWKWARD, samples.recompile()]
    )
    assert github.render(document).splitlines() == [
        (
            "::error file=src/toy/data.py,line=18,title=XLA101 graph-recompile::a graph was compiled at step 12, after "
            "warm-up: input 0 was f32[64,128] and is f32[24,128]%0Afix: drop the last batch or pad it: "
            "DataLoader(…, drop_last=True)"
        ),
        (
            "::warning title=XLA201 host-sync::/opt/lib/x.py:3: loss.item() reads a value inside the step, 20 times: each "
            "cuts the graph and waits%0Afix: read it after torch_xla.sync(), every N steps, or in xm.add_step_closure"
        ),
        (
            "::warning file=src/toy/train.py,line=41,title=XLA201 host-sync::loss.item() reads a value inside the step, 20 "
            "times: each cuts the graph and waits%0Afix: read it after torch_xla.sync(), every N steps, or in "
            "xm.add_step_closure"
        ),
        (
            "::warning file=src/a b%2C 100%25%3A[ü]`.py,line=7,title=XLA201 host-sync::100%25 of <b>`x|y`</b>,%0A[a]"
            "(http://evil) __dunder__ \\x1b[2J%0Afix: read it after torch_xla.sync(), every N steps, or in "
            "xm.add_step_closure"
        ),
        (
            "::notice title=XLA201 host-sync::loss.item() reads a value inside the step, 20 times: each cuts the graph and "
            "waits"
        ),
    ]


def test_a_message_cannot_start_a_command_of_its_own(tmp_path: Path) -> None:
    evil = dataclasses.replace(samples.host_sync(), message="x\n::set-env name=PATH::/evil", fix="y\r::error::z")
    assert len(github.render(to_document(samples.trace(tmp_path), [evil])).splitlines()) == 1


def test_the_job_summary(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [samples.host_sync()], {"file": "base.json", "known": 1})
    document["compile"] = {**samples.compiled(), "findings": []}
    assert (
        markdown.render(document)
        == """\
## xla_sim: src/toy/train.py

**1 warning to look at**

|  |  |
| --- | --- |
| compiled | 2 graphs (step 1), none after warm-up |
| executed | 40, 2 per step (expected 1 per step) |
| moved | 16.4 kB to the device and 4 B back per step |
| known | 1 finding in base.json is not shown |
| stack | python 3.12.11, torch 2.9.0, torch_xla 2.9.0, device CPU |

### Findings

|  | where | rule | what |
| --- | --- | --- | --- |
| ⚠️ warning | `src/toy/train.py:41` | XLA201 host-sync | loss.item() reads a value inside the step, 20 times: each cuts \
the graph and waits<br>**fix:** read it after torch_xla.sync(), every N steps, or in xm.add_step_closure |

### On the chips

| graph | chip | verdict | HBM | padding | takes at least | MXU busy at best |
| --- | --- | --- | --- | --- | --- | --- |
| `a1a1a1a1` | v5e | ✅ accepted | 3 of 15.75 GiB | 1.06× | 1.3 ms (memory) | 12 % |
| `b2b2b2b2` | v5e | ❌ too big | 24 of 15.75 GiB | – | – | – |
| `c3c3c3c3` | v5e | ❌ refused | – | – | – | – |

`a1a1a1a1` on v5e exchanges

- 4 all-reduces, 52 MB; the largest 13 B
"""
    )


def test_the_fit_in_the_job_summary() -> None:
    assert (
        markdown.render({**empty(), "fit": samples.fitted()})
        == """\
## xla_sim: toy.model:fit_plan

**It fits, 7.82 of 15.75 GiB a chip**

### Fit: toy.model:fit_plan

6.7B parameters, batch 64, fsdp=64 on v5e:8x8 (64 chips): fits, 7.82 of 15.75 GiB a chip

| a chip holds |  | by arithmetic |
| --- | --- | --- |
| parameters | 210 MiB | 209 MiB |
| gradients | 210 MiB | 209 MiB |
| optimizer state | 420 MiB | 418 MiB |
| activations | 6 GiB |  |
| temporaries | 1 GiB |  |

- 64 all-gathers, 13.4 GB; the largest 90 MB (src/toy/model.py:23)

| topology | batch | verdict | HBM | a step takes at least |
| --- | --- | --- | --- | --- |
| v5e:2x2 | 64 | ❌ too big | 60 of 15.75 GiB | – |
| v5e:4x4 | 64 | ❌ too big | 18 of 15.75 GiB | – |
| v5e:8x8 | 64 | ✅ fits | 8 of 15.75 GiB | 200 ms |

v5e:8x8 is the smallest that fits
"""
    )


def test_awkward_text_stays_text_in_the_job_summary(tmp_path: Path) -> None:
    """What a Markdown parser makes of it: no tag, no link, no code, no extra cell, and every character is there."""
    parser = pytest.importorskip("markdown_it", reason="needs markdown-it-py").MarkdownIt("commonmark").enable("table")
    page = parser.render(markdown.render(to_document(samples.trace(tmp_path), [AWKWARD])))
    row = page.split("<tbody>")[2].split("</tr>")[0]
    cells = re.findall("<td>(.*?)</td>", row, re.DOTALL)
    assert cells == [
        "⚠️ warning",
        "<code>src/a b, 100%:[ü]`.py:7</code>",
        "XLA201 host-sync",
        (
            "100% of &lt;b&gt;<code>x|y</code>&lt;/b&gt;, [a](http://evil) __dunder__ \\x1b[2J<br><strong>fix:</strong> read it"
            " after torch_xla.sync(), every N steps, or in xm.add_step_closure"
        ),
    ]


def test_the_job_summary_is_bounded(tmp_path: Path) -> None:
    """GitHub refuses more than 1 MiB."""
    long = dataclasses.replace(samples.host_sync(), message="a word " * 500)
    text = markdown.render(to_document(samples.trace(tmp_path), [long] * 1000))
    assert text.endswith("950 more are in report.html.\n")
    assert len(text.encode()) < 2**20


def sarif_log(tmp_path: Path) -> dict[str, Any]:
    nowhere = dataclasses.replace(samples.recompile(), location=Location(), severity="info")
    document = to_document(samples.trace(tmp_path), [samples.host_sync(), AWKWARD, nowhere])
    return json.loads(sarif.render(document, described()))  # type: ignore[no-any-return]


def test_sarif_results(tmp_path: Path) -> None:
    run = sarif_log(tmp_path)["runs"][0]
    first, awkward, nowhere = run["results"]
    assert first == {
        "ruleId": "XLA201",
        "ruleIndex": 0,
        "level": "warning",
        "message": {
            "text": "loss.item() reads a value inside the step, 20 times: each cuts the graph and waits. Fix: read it "
            "after torch_xla.sync(), every N steps, or in xm.add_step_closure."
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "src/toy/train.py", "uriBaseId": "SRCROOT"},
                    "region": {"startLine": 41},
                },
                "logicalLocations": [{"name": "train_step", "kind": "function"}],
            }
        ],
        "partialFingerprints": {"xlaSimFinding/v1": first["partialFingerprints"]["xlaSimFinding/v1"]},
        "stacks": [
            {
                "message": {"text": "Python frames, innermost first"},
                "frames": [
                    {
                        "location": {
                            "physicalLocation": {
                                "artifactLocation": {"uri": "file:///home/ada/src/toy/train.py"},
                                "region": {"startLine": 41},
                            },
                            "logicalLocations": [{"name": "train_step", "kind": "function"}],
                        }
                    }
                ],
            }
        ],
    }
    uri = awkward["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "src/a%20b%2C%20100%25%3A%5B%C3%BC%5D%60.py"
    place = nowhere["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "src/toy/train.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 1},
    }, "code scanning shows no result without a place: the program's first line"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["XLA201", "XLA101"]
    assert run["tool"]["driver"]["rules"][0]["shortDescription"] == {"text": "A value was read inside a step."}
    assert run["invocations"] == [
        {"executionSuccessful": True, "arguments": ["src/toy/train.py", "--steps", "20"], "exitCode": 0}
    ]


def test_a_finding_keeps_its_fingerprint_when_lines_and_counts_change() -> None:
    def fingerprint(**changes: Any) -> str:
        finding = dataclasses.replace(samples.host_sync(), **changes).as_dict()
        return sarif._fingerprint(finding)

    same = {fingerprint(), fingerprint(location=Location("src/toy/train.py", 99, "train_step"))}
    same.add(fingerprint(message=samples.host_sync().message.replace("20", "8")))
    assert len(same) == 1
    assert fingerprint(location=Location("src/toy/eval.py", 41, "train_step")) not in same
    assert fingerprint(rule="cpu-fallback") not in same


def test_sarif_keeps_the_rules_of_the_standard(tmp_path: Path) -> None:
    """Sections 3.27, 3.49, 3.28 and 3.4 of the standard, where they go beyond types."""
    log = sarif_log(tmp_path)
    assert (log["version"], list(log)) == ("2.1.0", ["$schema", "version", "runs"])
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        for location in result["locations"]:
            physical = location["physicalLocation"]
            assert physical["region"]["startLine"] >= 1
            assert physical["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
            assert not re.search(r"[^-A-Za-z0-9._~%/]", physical["artifactLocation"]["uri"])


@pytest.mark.network
def test_sarif_against_the_official_schema(tmp_path: Path) -> None:
    """The schema of the standard, as Microsoft's npm package @microsoft/jest-sarif ships it."""
    jsonschema = pytest.importorskip("jsonschema")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, to fetch the package that ships the SARIF schema")
    command = [npm, "pack", "--silent", "@microsoft/jest-sarif@1.0.0-beta.0"]
    packed = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    if packed.returncode:
        pytest.skip(f"needs an npm registry: {packed.stderr.strip().splitlines()[-1:]}")
    with tarfile.open(tmp_path / packed.stdout.split()[-1]) as archive:
        file = archive.extractfile("package/lib/schemas/sarif-2.1.0-rtm.5.json")
        assert file is not None
        schema = json.load(file)
    validator = jsonschema.Draft4Validator(schema)
    assert [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(sarif_log(tmp_path))] == []
    assert not validator.is_valid({"version": "2.1.0", "runs": [{}]}), "the schema must be able to refuse"
