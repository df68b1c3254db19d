"""One small program a rule, and the whole finding that it gives: message, fix, place and evidence."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import textwrap
from pathlib import Path
from typing import Any

import pytest
from xla_sim.observe.supervise import supervise_script
from xla_sim.rules.judging import judge
from xla_sim.trace import Finding

VERSION = importlib.metadata.version("torch_xla").partition("+")[0]
START = """
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
torch.manual_seed(0)
"""


def findings(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the rules say of ``START`` and the program: findings as plain data, without frames and hashes of graphs."""
    monkeypatch.chdir(folder)
    Path("train.py").write_text(START.lstrip() + textwrap.dedent(program), encoding="utf-8")
    trace = judge(supervise_script(["train.py"], folder / "out", timeout=300, warm=True))
    assert (trace.exit, trace.facts_named("bug")) == (0, [])
    return [_plain(finding) for finding in trace.findings]


def _plain(finding: Finding) -> dict[str, Any]:
    data = dataclasses.asdict(finding)
    data["location"] = f"{finding.location.file}:{finding.location.line} {finding.location.function}".strip()
    for difference in data["evidence"].get("differences", []):
        del difference["graph"]
    return data


def test_graph_recompile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (16, 16, 8, 16, 16, 8):
        x = torch.randn(size, 16).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "graph-recompile",
            "code": "XLA101",
            "severity": "warning",
            "message": "compiled again at step 3: input from train.py:11 was f32[16,16] and became f32[8,16]",
            "fix": "give every step the same shapes: drop or pad the last batch (drop_last=True), pad to a few fixed lengths",
            "location": "train.py:16 <module>",
            "evidence": {
                "compilations": 1,
                "steps": 6,
                "kind": "shape",
                "differences": [
                    {
                        "step": 3,
                        "kind": "shape",
                        "summary": "input from train.py:11 was f32[16,16] and became f32[8,16]",
                        "details": ["input from train.py:11: f32[16,16] became f32[8,16]"],
                    }
                ],
            },
        }
    ]


def test_missing_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        x = torch.randn(16, 16).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    print(loss.item())
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "missing-step",
            "code": "XLA102",
            "severity": "warning",
            "message": "5 optimizer steps went by without a step mark; they ran only because a value was read (once)",
            "fix": "call torch_xla.sync() once at the end of every training step",
            "location": "train.py:16 <module>",
            "evidence": {"optimizer_steps": 5, "reads": 1, "executions": 1},
        }
    ]


def test_never_on_xla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 16)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "never-on-xla",
            "code": "XLA103",
            "severity": "error",
            "message": "3 optimizer steps ran elsewhere and no graph was executed on an XLA device",
            "fix": "move the model and every batch to torch_xla.device(), and end each step with torch_xla.sync()",
            "location": "train.py:13 <module>",
            "evidence": {"optimizer_steps": 3, "torch_xla_imported": True},
        }
    ]


def test_growing_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    kept = []
    with torch.no_grad():
        for _ in range(6):
            kept.append(model(torch.randn(16, 16).to(device)).mean())
            total = torch.stack(kept).sum()
            torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "growing-graph",
            "code": "XLA104",
            "severity": "warning",
            "message": "the graph grew from 30 instructions at step 2 to 38 at step 6, a little at each step",
            "fix": "keep one running tensor instead of a growing list, and detach what is carried from step to step",
            "location": "train.py:14 <module>",
            "evidence": {"steps": [2, 3, 4, 5, 6], "instructions": [30, 32, 34, 36, 38]},
        },
        {
            "rule": "graph-recompile",
            "code": "XLA101",
            "severity": "info",
            "message": "compiled again 4 times in 6 steps, first at step 3: new ops: aten::stack (train.py:13)",
            "fix": "make every step do the same ops: replace Python branches on the step or on values by torch.where",
            "location": "train.py:14 <module>",
            "evidence": {
                "compilations": 4,
                "steps": 6,
                "kind": "ops",
                "differences": [
                    {
                        "step": 3,
                        "kind": "ops",
                        "summary": "new ops: aten::stack (train.py:13)",
                        "details": ["+1 aten::stack"],
                    },
                    {
                        "step": 4,
                        "kind": "ops",
                        "summary": "new ops: aten::stack (train.py:13)",
                        "details": ["+1 aten::stack"],
                    },
                    {
                        "step": 5,
                        "kind": "ops",
                        "summary": "new ops: aten::stack (train.py:13)",
                        "details": ["+1 aten::stack"],
                    },
                    {
                        "step": 6,
                        "kind": "ops",
                        "summary": "new ops: aten::stack (train.py:13)",
                        "details": ["+1 aten::stack"],
                    },
                ],
            },
        },
    ]


def test_unaligned_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    with torch.no_grad():
        for _ in range(3):
            out = model(torch.randn(13, 16).to(device))
            torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "unaligned-batch",
            "code": "XLA105",
            "severity": "info",
            "message": "a batch of 13 is computed as 16 rows: 3 of them (19%) are thrown away",
            "fix": "use a batch that is a multiple of 8: 8 or 16",
            "location": "train.py:11 <module>",
            "evidence": {
                "batch": 13,
                "rows": 13,
                "rows_computed": 16,
                "first_step": 1,
                "module": "Linear",
                "dot": "f32[13,4]",
            },
        }
    ]


def test_host_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        print(loss.item())
        loss.backward()
        optimizer.step()

    for _ in range(4):
        step(torch.randn(16, 16).to(device))
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "host-sync",
            "code": "XLA201",
            "severity": "warning",
            "message": "`print(loss.item())` reads a value inside the step, 4 times in 4 steps: each cuts the graph and waits for the device",
            "fix": "read it after torch_xla.sync(), every N steps, or in xm.add_step_closure",
            "location": "train.py:14 step",
            "evidence": {"reads": 4, "steps": [1, 2, 3, 4], "ops": []},
        }
    ]


def test_cpu_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(27, 4).to(device)
    with torch.no_grad():
        for _ in range(4):
            images = torch.randn(8, 3, 8, 8).to(device)
            out = model(nn.functional.unfold(images, 3).transpose(1, 2))
            torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "cpu-fallback",
            "code": "XLA202",
            "severity": "warning",
            "message": f"aten::im2col has no lowering in torch_xla {VERSION} and ran on the host, 4 times in 4 steps (`out = model(nn.functional.unfold(images, 3).transpose(1, 2))`)",
            "fix": "compute it with ops that XLA has, or move it out of the step (into the data pipeline)",
            "location": "train.py:12 <module>",
            "evidence": {"op": "aten::im2col", "calls": 4, "steps": 4, "lines": ["train.py:12"]},
        }
    ]


def test_large_transfer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(512, 8).to(device)
    table = torch.randn(512, 512)
    with torch.no_grad():
        for _ in range(5):
            out = model(torch.randn(16, 512).to(device) @ table.to(device))
            torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "large-transfer",
            "code": "XLA203",
            "severity": "warning",
            "message": "the same tensor of 1 MiB was sent to the device at 4 of 4 steps in a row",
            "fix": "move it to the device once, before the loop",
            "location": "train.py:12 <module>",
            "evidence": {"bytes": 1048576, "shape": [512, 512], "steps": 4},
        }
    ]


def test_stale_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(device)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 16).to(device)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "stale-optimizer",
            "code": "XLA301",
            "severity": "error",
            "message": "SGD holds 2 of 2 parameters that the model no longer uses; the ones it trains (weight, bias) are in no optimizer",
            "fix": "build the optimizer after model.to(device), and after any layer is replaced or added",
            "location": "train.py:9 <module>",
            "evidence": {
                "optimizer": "SGD",
                "stale": [{"shape": [4, 16]}, {"shape": [4]}],
                "trained_by_nobody": ["weight", "bias"],
                "steps": 4,
            },
        }
    ]


def test_frozen_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model[1](model[0](torch.randn(16, 16).to(device)).detach()).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "frozen-parameters",
            "code": "XLA302",
            "severity": "warning",
            "message": "2 of 4 parameters of SGD never received a gradient in 4 steps: weight, bias",
            "fix": "connect them to the loss, or leave them out of the optimizer",
            "location": "train.py:9 <module>",
            "evidence": {"optimizer": "SGD", "parameters": ["weight", "bias"], "steps": 4},
        }
    ]


def test_missing_zero_grad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        model(torch.randn(16, 16).to(device)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "missing-zero-grad",
            "code": "XLA303",
            "severity": "warning",
            "message": "SGD stepped 5 times and its gradients still held those of the step before, 4 of 4 times looked at",
            "fix": "call optimizer.zero_grad() before each backward pass, or after each optimizer step",
            "location": "train.py:12 <module>",
            "evidence": {"optimizer": "SGD", "uncleared": 4, "looked_at": 4},
        }
    ]


def test_broken_tie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Tanh(), nn.Linear(16, 16, bias=False))
    model[2].weight = model[0].weight
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 16).to(device)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "broken-tie",
            "code": "XLA304",
            "severity": "error",
            "message": "0.weight and 2.weight were one tensor before the move to the device and are 2 now",
            "fix": "tie them again after .to(device)",
            "location": "train.py:10 <module>",
            "evidence": {"names": ["0.weight", "2.weight"], "shape": [16, 16], "module": "Sequential"},
        }
    ]


def test_nonfinite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        scale = torch.full((16, 1), 1.0 if step < 2 else 0.0).to(device)
        loss = (model(torch.randn(16, 16).to(device)) / scale).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "nonfinite",
            "code": "XLA305",
            "severity": "error",
            "message": "the loss became infinite, first at step 3",
            "fix": "lower the learning rate, clip gradients, or use the numerically stable form of the loss",
            "location": "train.py:14 <module>",
            "evidence": {"step": 3, "what": "the loss", "became": "infinite"},
        }
    ]


def test_device_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 16).to(device)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    torch.save(model.state_dict(), "model.pt")
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "device-checkpoint",
            "code": "XLA306",
            "severity": "warning",
            "message": "tensors were pickled while on the XLA device",
            "fix": "move the state to the CPU first: {k: v.cpu() for k, v in state.items()}, or use xm.save",
            "location": "train.py:15 <module>",
            "evidence": {"step": 4, "shape": [4, 16]},
        }
    ]


def test_wide_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    weight = torch.randn(16, 16, dtype=torch.float64).to(device)
    for _ in range(3):
        out = torch.randn(16, 16, dtype=torch.float64).to(device) @ weight
        torch_xla.sync()
    """
    assert findings(program, tmp_path, monkeypatch) == [
        {
            "rule": "wide-dtype",
            "code": "XLA401",
            "severity": "warning",
            "message": "1 operation computes in float64, such as aten::mm on f64[16,16]",
            "fix": "convert to float32 (complex64) where the tensor is made",
            "location": "train.py:10",
            "evidence": {"operations": 1, "dtype": "float64", "example": "f64[16,16]"},
        }
    ]
