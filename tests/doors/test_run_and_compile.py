"""From a program to the compiler's word: `xla_sim run`, then `xla_sim compile`, on what people write."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla to run a program"
)

SPMD = """\
import numpy, torch, torch_xla, torch_xla.runtime as xr, torch_xla.distributed.spmd as xs
from torch import nn

xr.use_spmd()
mesh = xs.Mesh(numpy.arange(8), (8,), ("fsdp",))
device = torch_xla.device()
model = nn.Sequential(
    nn.Linear(512, 1024),
    nn.ReLU(),
    nn.Linear(1024, 512),
).to(device)
for parameter in model.parameters():
    xs.mark_sharding(parameter, mesh, ("fsdp",) + (None,) * (parameter.dim() - 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(256, 512).to(device)
    xs.mark_sharding(x, mesh, ("fsdp", None))
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""
WIDE = """\
import torch, torch_xla

device = torch_xla.device()
weight = torch.randn(65, 64, dtype=torch.float64).to(device).requires_grad_()
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = (weight @ weight.T).tanh().square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""


def both(command: Callable[..., Any], tmp_path: Path, program: str, *words: str, **environment: str) -> dict[str, Any]:
    (tmp_path / "train.py").write_text(program)
    ran = command("run", "--out", "run", "--fail-on", "never", "train.py", PJRT_DEVICE="CPU", **environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    compiled = command("compile", "run", "--fail-on", "never", *words)
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    document: dict[str, Any] = json.loads((tmp_path / "run" / "compile.json").read_text())
    return document


def test_a_program_on_eight_virtual_devices(command: Callable[..., Any], tmp_path: Path) -> None:
    topologies = ["v5e:2x4", "v6e:2x4", "v5p:2x2x2"]
    document = both(command, tmp_path, SPMD, "--topology", ",".join(topologies), CPU_NUM_DEVICES="8")
    results = [one for one in document["results"] if one["collectives"]]
    assert {one["topology"] for one in results} == set(topologies)
    shards = 4 * (512 * 1024 + 1024 + 1024 * 512 + 512 + 256 * 512) // 8
    for result in results:
        assert (result["status"], result["chips"]) == ("ok", 8)
        assert shards <= result["hbm"]["arguments"] < 1.05 * shards
        kinds = {one["kind"]: one for one in result["collectives"]}
        assert {"all-gather"} < set(kinds) and {"reduce-scatter", "all-reduce"} & set(kinds)
        assert all(one["largest"]["location"]["file"] == "train.py" for one in kinds.values())
        assert (
            kinds["all-gather"]["largest"]["location"]["line"]
            == SPMD.splitlines().index("    loss = model(x).square().mean()") + 1
        )


def test_a_wide_type_is_priced_at_its_line(command: Callable[..., Any], tmp_path: Path) -> None:
    document = both(command, tmp_path, WIDE, "--chips", "v5e")
    (finding,) = [one for one in document["findings"] if one["rule"] == "wide-dtype"]
    assert (finding["location"]["file"], finding["severity"]) == ("train.py", "warning")
    assert "; on v5e the graph as it is, against the same in float32: " in finding["message"]
    assert all(cost["wide"]["flops"] > cost["narrow"]["flops"] for cost in finding["evidence"]["cost"])
    assert [one["status"] for one in document["results"]] == ["ok"] * len(document["results"])
