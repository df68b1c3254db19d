"""Small traces and documents, built by hand from the dataclasses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xla_sim.trace import Execution, Fact, Fallback, Finding, Forward, Frame, Graph, Location, Optimizer, Step, Trace

HERE = Location("src/toy/train.py", 41, "train_step", (Frame("/home/ada/src/toy/train.py", 41, "train_step"),))
MARK = Location("src/toy/train.py", 45, "train_step")
ABOUT = {
    "made_at": "2026-12-01T03:29:55Z",
    "made_of": {"hash": "9f" * 32, "files": 3, "commit": "1a" * 20, "dirty": True},
    "command": "python -m xla_sim run --out reports/xla_sim src/toy/train.py --steps 20",
    "next": "nox -s tpu_compile",
}
GRAPH_A, GRAPH_B, GRAPH_C = "a1" * 16, "b2" * 16, "c3" * 16


def step(index: int, *executions: Execution, **more: Any) -> Step:
    values: dict[str, Any] = {"to_device": 16384, "to_host": 4, "backwards": 1, "optimizers": (1,), **more}
    return Step(index, True, MARK, index * 0.1, executions, (Forward("ToyModel", True, True, ((64, 128),)),), **values)


def run(graph: str, cause: str = "sync", compiled: bool = False) -> Execution:
    return Execution(graph, cause, HERE if cause == "read" else MARK, compiled)


def host_sync() -> Finding:
    return Finding(
        rule="host-sync",
        code="XLA201",
        severity="warning",
        message="loss.item() reads a value inside the step, 20 times: each cuts the graph and waits",
        fix="read it after torch_xla.sync(), every N steps, or in xm.add_step_closure",
        location=HERE,
        evidence={"count": 20, "steps": [1, 20]},
    )


def recompile() -> Finding:
    return Finding(
        rule="graph-recompile",
        code="XLA101",
        severity="error",
        message="a graph was compiled at step 12, after warm-up: input 0 was f32[64,128] and is f32[24,128]",
        fix="drop the last batch or pad it: DataLoader(…, drop_last=True)",
        location=Location("src/toy/data.py", 18, "batches"),
        evidence={"compilations": 1, "steps": 24},
    )


def graph(hash: str, first_step: int, executions: int, hlo: str = "") -> Graph:
    return Graph(hash, first_step, 1, executions, "sync", MARK, 7, 6, 0.21, hlo)


def trace(directory: Path, **changes: Any) -> Trace:
    """20 steps of a training loop that reads its loss inside the step."""
    steps: list[Step] = [
        step(1, run(GRAPH_A, "read", True), run(GRAPH_B, "sync", True)),
        *(step(index, run(GRAPH_A, "read"), run(GRAPH_B)) for index in range(2, 21)),
    ]
    values: dict[str, Any] = {
        "directory": directory,
        "argv": ("src/toy/train.py", "--steps", "20"),
        "exit": 0,
        "ending": "",
        "stack": {"python": "3.12.11", "torch": "2.9.0", "torch_xla": "2.9.0", "device": "CPU"},
        "seconds": 4.9,
        "timeline": tuple(steps),
        "graphs": (graph(GRAPH_A, 1, 20), graph(GRAPH_B, 1, 20)),
        "metrics": "Metric: CompileTime\n  TotalSamples: 2\n",
    }
    return Trace(**{**values, **changes})


def rich_trace(directory: Path) -> Trace:
    """A run with something of everything in it."""
    steps: tuple[Step, ...] = (
        step(1, run(GRAPH_A, "read", True), run(GRAPH_B, "sync", True)),
        *(step(index, run(GRAPH_A, "read"), run(GRAPH_B)) for index in range(2, 12)),
        step(12, run(GRAPH_A, "read"), run(GRAPH_C, "sync", True), fallbacks={"aten::glu_backward": 1}),
        *(step(index, run(GRAPH_A, "read"), run(GRAPH_B), to_device=None) for index in range(13, 20)),
        step(20, run(GRAPH_B), to_device=10**8, repeats=5),
        Step(25, False, Location(), 3.0, (run(GRAPH_A, "read"),), (), to_host=4),
    )
    return trace(
        directory,
        timeline=steps,
        graphs=(graph(GRAPH_A, 1, 20), graph(GRAPH_B, 1, 23), graph(GRAPH_C, 12, 1)),
        fallbacks=(Fallback("aten::glu_backward", 1, HERE),),
        optimizers=(Optimizer(id=1, name="Adam", created=HERE, stepped=HERE, steps=20, parameters=4, device="xla"),),
        facts=(Fact("nonfinite", 3, HERE, {"value": float("nan"), "path": Path("x")}),),
        unknown=("torch_xla 2.4.0 doesn't say how many bytes a step moves",),
    )


MIB, GIB = 2**20, 2**30


def compiled() -> dict[str, Any]:
    """A compile document: one graph that fits, one that doesn't, one that was refused."""
    location = {"file": "src/toy/model.py", "line": 23, "function": "forward"}
    base: dict[str, Any] = {"topology": "v5e:2x2", "chip": "v5e", "chips": 1, "message": "", "cached": False}
    return {
        "schema": 1,
        "compiler": {"jax": "0.10.2", "libtpu": "0.0.42.1"},
        "results": [
            {
                **base,
                "graph": GRAPH_A,
                "status": "ok",
                "seconds": 0.5,
                "hbm": {
                    "capacity": int(15.75 * GIB),
                    "arguments": 2 * GIB,
                    "outputs": 2 * GIB,
                    "aliased": 2 * GIB,
                    "temporaries": GIB,
                    "code": MIB,
                    "total": 3 * GIB + MIB,
                },
                "padding": {"logical": 1000, "padded": 1060, "tensors": []},
                "bound": {"seconds": 0.0013, "compute_seconds": 0.0002, "memory_seconds": 0.0013, "mxu_share": 0.12},
                "flops": 1.0e9,
                "bytes_accessed": 2.0e9,
                "collectives": [
                    {"kind": "all-reduce", "count": 4, "bytes": 52_000_000, "largest": {"bytes": 13, "location": None}}
                ],
            },
            {
                **base,
                "graph": GRAPH_B,
                "status": "oom",
                "seconds": 12.0,
                "hbm": {"capacity": int(15.75 * GIB), "total": 24 * GIB, "temporaries": 24 * GIB},
                "padding": None,
                "bound": None,
                "message": "RESOURCE_EXHAUSTED: Ran out of memory on HBM",
                "buffers": [
                    {
                        "name": "fusion.12",
                        "shape": "f32[65536,8,4]{2,1,0:T(8,128)}",
                        "logical": 8 * MIB,
                        "padded": 256 * MIB,
                        "bytes": 256 * MIB,
                        "location": location,
                    }
                ]
                * 2,
            },
            {**base, "graph": GRAPH_C, "status": "rejected", "hbm": None, "message": "Unexpected operand type for FFT"},
        ],
        "findings": [
            {
                "rule": "hbm-overflow",
                "code": "TPU502",
                "severity": "error",
                "message": "the step needs 24 GiB of v5e's 15.75 GiB",
                "fix": "halve the batch, or shard the model: python -m xla_sim fit",
                "location": location,
                "evidence": {"graphs": [GRAPH_B]},
            }
        ],
    }


def fitted() -> dict[str, Any]:
    """A fit document with a search."""
    capacity = int(15.75 * GIB)

    def row(topology: str, chips: int, batch: int, total: int) -> dict[str, Any]:
        status = "ok" if total <= capacity else "oom"
        return {
            "topology": topology,
            "chips": chips,
            "batch_size": batch,
            "status": status,
            "hbm": {"total": total, "capacity": capacity},
            "bound": {"seconds": 0.2} if status == "ok" else None,
        }

    return {
        "schema": 1,
        "target": "toy.model:fit_plan",
        "parameters": 6_700_000_000,
        "batch_size": 64,
        "topology": "v5e:8x8",
        "chips": 64,
        "mesh": {"fsdp": 64},
        "status": "ok",
        "seconds": 122.0,
        "hbm": {
            "capacity": capacity,
            "parameters": 210 * MIB,
            "gradients": 210 * MIB,
            "optimizer": 420 * MIB,
            "activations": 6 * GIB,
            "temporaries": GIB,
            "other": None,
            "total": 7 * GIB + 840 * MIB,
        },
        "expected": {"parameters": 209 * MIB, "optimizer": 418 * MIB, "gradients": 209 * MIB, "batch": 0},
        "bound": {"seconds": 0.21, "compute_seconds": 0.21, "memory_seconds": 0.1, "mxu_share": 0.6},
        "collectives": [
            {
                "kind": "all-gather",
                "count": 64,
                "bytes": 13_400_000_000,
                "largest": {
                    "bytes": 90_000_000,
                    "location": {"file": "src/toy/model.py", "line": 23, "function": "forward"},
                },
            }
        ],
        "buffers": [],
        "message": "",
        "notes": [],
        "search": {
            "question": "the smallest v5e that fits",
            "rows": [
                row("v5e:2x2", 4, 64, 60 * GIB),
                row("v5e:4x4", 16, 64, 18 * GIB),
                row("v5e:8x8", 64, 64, 8 * GIB),
            ],
            "answer": "v5e:8x8 is the smallest that fits",
        },
        "findings": [],
    }
