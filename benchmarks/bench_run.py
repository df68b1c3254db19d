"""What it costs to watch: ``xla_sim run`` against the bare program and against torch_xla's own debug log.

Prints ratios measured in one run: whole process, time a step after warm-up, peak memory, and the size of the run
directory by steps and by graph. Arguments: the models to measure (toy, step50, resnet18, gpt2), and --steps N.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """
import json, resource, sys, time
import torch
import torch_xla

name, steps = sys.argv[1], int(sys.argv[2])
device = torch_xla.device()
torch.manual_seed(0)
if name == "toy":
    model = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    batch = lambda: (torch.randn(64, 128), torch.randint(0, 10, (64,)))
elif name == "step50":
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)], torch.nn.Linear(1024, 10))
    batch = lambda: (torch.randn(512, 1024), torch.randint(0, 10, (512,)))
elif name == "resnet18":
    import torchvision
    model = torchvision.models.resnet18(num_classes=10)
    batch = lambda: (torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,)))
else:
    import transformers
    config = transformers.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=2048, n_positions=128)
    gpt2 = transformers.GPT2LMHeadModel(config)
    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gpt2 = gpt2
        def forward(self, x):
            return self.gpt2(x).logits.flatten(0, 1)
    model = Logits()
    def batch():
        tokens = torch.randint(0, 2048, (4, 128))
        return tokens, tokens.flatten()
model = model.to(device)
optimizer = torch.optim.Adam(model.parameters())
seconds = []
for step in range(steps):
    started = time.perf_counter()
    x, y = (t.to(device) for t in batch())
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync(wait=True)
    seconds.append(time.perf_counter() - started)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print("BENCH " + json.dumps({"seconds": seconds, "peak": peak}), flush=True)
"""
WAYS = ("bare", "debug", "run")


def measure(way: str, program: Path, model: str, steps: int, folder: Path) -> dict[str, float]:
    """Seconds of the process and of a step after warm-up, peak bytes, bytes of the run directory."""
    environ = {**os.environ, "PJRT_DEVICE": "CPU"}
    command = [sys.executable, str(program), model, str(steps)]
    if way == "debug":
        environ.update(PT_XLA_DEBUG_LEVEL="2", PT_XLA_DEBUG_FILE=str(folder / "debug.txt"))
    if way == "run":
        command = [sys.executable, "-m", "xla_sim", "run", "--quiet", "--out", str(folder / "out"), *command[1:]]
    started = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    line = next((line for line in done.stdout.splitlines() if line.startswith("BENCH ")), None)
    if line is None:
        raise SystemExit(f"{model} ({way}) failed:\n{done.stdout}{done.stderr}")
    told = json.loads(line[6:])
    size = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
    return {"process": seconds, "step": statistics.median(told["seconds"][5:]), "peak": told["peak"], "size": size}


def compare(program: Path, model: str, steps: int, rounds: int) -> None:
    results: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:  # in turn, so that a slow minute of the machine falls on all of them
            with tempfile.TemporaryDirectory() as folder:
                results[way].append(measure(way, program, model, steps, Path(folder)))

    def ratio(way: str, key: str) -> float:
        return min(r[key] for r in results[way]) / min(r[key] for r in results["bare"])

    step = min(r["step"] for r in results["bare"])
    print(
        f"{model:9} {steps:5} steps of {step * 1e3:7.1f} ms   process {ratio('run', 'process'):.3f}   "
        f"step {ratio('run', 'step'):.3f} (debug log alone {ratio('debug', 'step'):.3f})   "
        f"memory {ratio('run', 'peak'):.3f}   run directory {results['run'][-1]['size'] / 1e6:.2f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["toy", "step50", "resnet18", "gpt2"])
    parser.add_argument("--steps", type=int, nargs="*", default=[30])
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    print("xla_sim run divided by the bare program (best of each, taken in turn):")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM, encoding="utf-8")
        for model in args.models:
            for steps in args.steps:
                compare(program, model, steps, args.rounds)
        if args.models == ["toy", "step50", "resnet18", "gpt2"]:
            for steps in (10, 100, 1000):
                compare(program, "toy", steps, 1)


if __name__ == "__main__":
    main()
