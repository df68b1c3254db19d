"""How long and how much memory `xla_sim fit` takes for Llama-shaped models, and whether arithmetic agrees with its answer.

    nox -s bench -- bench_fit                        every model whole, until HBM is laid out: some minutes a row
    FIT_CODE=1 nox -s bench -- bench_fit             the 7B with its code generated too: a quarter of an hour more
    python benchmarks/bench_fit.py llama_7b          rows of one model

Seconds and memory are those of the whole command; memory is that of its largest process, tracing or compiling. `elements` are the
parameters' bytes on a chip as the compiler has them without the padding of its tiles, `arithmetic` what shapes and shardings say.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BLOCKS = ["--checkpoint", "blocks"]
ROWS = [
    ("llama_1b", "v5e:4x4", []),
    ("llama_7b", "v5e:8x8", []),
    ("llama_7b", "v5e:8x8", BLOCKS),
    ("llama_7b", "v5e:16x16", [*BLOCKS, "--batch-size", "256"]),
    ("llama_70b", "v5p:4x4x4", BLOCKS),
]
WITH_CODE = [("llama_7b", "v5e:8x8", [*BLOCKS, "--code"])]
PARTS = ("parameters", "gradients", "optimizer", "activations", "weights", "temporaries", "code")
GIB = 2**30


def main(models: list[str]) -> None:
    print("GiB a chip by kind, then GiB of parameters a chip")
    print(
        f"{'model':<10} {'topology':<10} {'options':<48} {'verdict':<8} {'total':>6} {'of':>6} "
        + " ".join(f"{part[:9]:>9}" for part in PARTS)
        + f" {'elements':>9} {'arithmetic':>10} {'s':>5} {'GB':>5}"
    )
    for name, topology, options in ROWS + (WITH_CODE if os.environ.get("FIT_CODE") else []):
        if not models or name in models:
            print(row(name, topology, options), flush=True)


def row(name: str, topology: str, options: list[str]) -> str:
    """One question, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "xla_sim", "fit", f"_llama:{name}", "--topology", topology, "--out", folder]
        begin = time.monotonic()
        traced, errors = run([*words, "--no-cache", *options])
        seconds = time.monotonic() - begin
        path = Path(folder) / "fit.json"
        if not path.exists():
            return f"{name}: no answer: {errors[-300:]}"
        answer: dict[str, Any] = json.loads(path.read_text())
    hbm = answer["hbm"] or dict.fromkeys((*PARTS, "total", "capacity"), 0)
    elements = answer["elements"].get("parameters")
    return (
        f"{name:<10} {topology:<10} {' '.join(options):<48} {answer['status']:<8} {hbm['total'] / GIB:>6.2f} {hbm['capacity'] / GIB:>6.2f} "
        + " ".join(f"{hbm[part] / GIB:>9.3f}" for part in PARTS)
        + f" {'-' if elements is None else f'{elements / GIB:.4f}':>9} {answer['expected']['parameters'] / GIB:>10.4f} "
        + f"{seconds:>5.0f} {max(traced, answer.get('peak_rss') or 0) / 1e9:>5.1f}"
    )


def run(command: list[str]) -> tuple[int, str]:
    """Bytes that the largest of it and its children took at most, and what it wrote to stderr."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return usage.ru_maxrss * 1024, errors.read()


if __name__ == "__main__":
    main(sys.argv[1:])
