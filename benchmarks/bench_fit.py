"""How long and how much memory `xla_sim fit` takes for Llama-shaped models, and whether arithmetic agrees with its answer.

    nox -s bench -- bench_fit               the rows that take minutes
    FIT_ALL=1 nox -s bench -- bench_fit     with the models compiled whole, and 256 chips: an hour

Seconds and memory are those of the whole command; memory is that of its largest process, tracing or compiling.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FEW = ["--layers", "2,4"]
QUICK = [
    ("llama_1b", "v5e:4x4", ["--checkpoint", "blocks", *FEW]),
    ("llama_7b", "v5e:8x8", ["--checkpoint", "blocks", *FEW]),
    ("llama_70b", "v5p:4x4x4", ["--checkpoint", "blocks", *FEW]),
]
ALL = [
    ("llama_1b", "v5e:4x4", []),
    ("llama_7b", "v5e:8x8", []),
    ("llama_7b", "v5e:8x8", ["--checkpoint", "blocks"]),
    ("llama_7b", "v5e:16x16", ["--batch-size", "256", "--checkpoint", "blocks", *FEW]),
    ("llama_70b", "v5p:4x4x4", ["--checkpoint", "blocks"]),
]


def main() -> None:
    print(
        f"{'model':<10} {'topology':<10} {'options':<38} {'verdict':<8} {'HBM GiB':>8} {'of':>6} {'param GiB':>10} {'by arithm.':>10} {'s':>6} {'GB':>5}"
    )
    for name, topology, options in QUICK + (ALL if os.environ.get("FIT_ALL") else []):
        print(row(name, topology, options), flush=True)


def row(name: str, topology: str, options: list[str]) -> str:
    """One question, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "xla_sim",
            "fit",
            f"_llama:{name}",
            "--topology",
            topology,
            "--out",
            folder,
            "--no-cache",
        ]
        begin = time.monotonic()
        done = subprocess.run(
            [*command, *options], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - begin
        path = Path(folder) / "fit.json"
        if not path.exists():
            return f"{name}: no answer: {done.stderr[-300:]}"
        answer: dict[str, Any] = json.loads(path.read_text())
    traced = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    hbm = answer["hbm"] or {"total": 0, "capacity": 0, "parameters": 0}
    gib = 2**30
    return (
        f"{name:<10} {topology:<10} {' '.join(options):<38} {answer['status']:<8} {hbm['total'] / gib:>8.2f} {hbm['capacity'] / gib:>6.2f} "
        f"{hbm['parameters'] / gib:>10.3f} {answer['expected']['parameters'] / gib:>10.3f} {seconds:>6.0f} "
        f"{max(traced, answer.get('peak_rss') or 0) / 1e9:>5.1f}"
    )


if __name__ == "__main__":
    main()
