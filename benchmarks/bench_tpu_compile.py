"""The TPU compiler through xla_sim: what it says of four real training steps, and what that costs over jax's own compile.

`nox -s bench -- tpu_compile` runs it in the simulation environment with the TPU environment's Python in $XLA_SIM_TPU_PYTHON.
Words: names of models (toy, resnet18, gpt2, bert; all by default), `--chips v5e,v6e`, `--repeat N`.

Both sides compile the same captured module, donation included, for the same chip, alternately, in this one run. jax's side is a
process that imports jax, describes the topology and compiles; ours is `compile_all` from nothing, worker and all, without a cache.
Seconds are wall time, the best of the repeats; `compiler` is the time inside the compiler's own call on each side. The ratio of CPU
seconds (all processes, best of the repeats too) stands beside that of wall time, since a shared machine may give one side more of its
cores than the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from xla_sim.compiler.pool import TpuUnavailable, python
from xla_sim.compiler.results import CompileRequest, CompileResult
from xla_sim.compiler.scheduler import Limits, compile_all
from xla_sim.hlo.protos import donor_parameters

HERE = Path(__file__).parent
MODELS = ("toy", "resnet18", "gpt2", "bert")
JAX = """
import sys, time, os
os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
import numpy
from jax._src import compiler as jax_compiler
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jax.experimental import topologies
devices = topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[2]).devices[:1]
module = _jax.mlir.hlo_to_stablehlo(open(sys.argv[1], "rb").read())
with jax_mlir.make_ir_context():
    module = ir.Module.parse(module)
    donated = {int(number) for number in sys.argv[3].split(",") if number}  # hlo_to_stablehlo drops it
    main = next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
    given = ir.ArrayAttr(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else None
    attributes = [dict((a.name, a.attr) for a in given[n]) if given else {} for n, _ in enumerate(main.arguments)]
    for number in donated:
        attributes[number]["jax.buffer_donor"] = ir.BoolAttr.get(True)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(own) for own in attributes])
    options = jax_compiler.get_compile_options(1, 1, numpy.array([[0]]), backend=devices[0].client)
    started = time.perf_counter()
    devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options).get_compiled_memory_stats()
print(time.perf_counter() - started)
"""


def capture(model: str, folder: Path) -> Path:
    """The graph of a training step: the largest one of step 2, since step 1 makes the optimizer's state in a graph of its own.

    What is captured is the graph before the CPU's compiler sees it, so that compiler needn't optimise: it takes minutes to.
    """
    out, started = folder / model, time.perf_counter()
    words = [sys.executable, "-m", "xla_sim", "run", "--quiet", "--fail-on", "never", "--out", str(out)]
    environment = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    subprocess.run(
        [*words, str(HERE / "_tpu_models.py"), model, "--steps", "2"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    graphs = json.loads((out / "report.json").read_text())["graphs"]
    files = [out / graph["hlo"] for graph in graphs if graph["first_step"] == 2]
    print(f"captured {model} in {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return max(files, key=lambda file: file.stat().st_size)


class Measured(NamedTuple):
    wall: float  # seconds
    cpu: float  # seconds, of the processes that were started for it
    compiler: float  # seconds of wall time in the compiler's own call


def measured(compile_it: Callable[[], float]) -> Measured:
    """Run it; it hands back the seconds in the compiler."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    compiler = compile_it()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measured(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, compiler)


def with_jax(graph: Path, topology: str) -> float:
    donated = ",".join(map(str, donor_parameters(graph.read_bytes())))
    command = [python(), "-c", JAX, str(graph), topology, donated]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def with_xla_sim(graph: Path, chip: str) -> CompileResult:
    return compile_all([CompileRequest(graph.stem, graph, chip)], Limits(seconds=3600), cache=None, jobs=1)[0]


def row(model: str, graph: Path, chip: str, repeat: int) -> str:
    ours, theirs, results = [], [], []

    def compiled() -> float:
        results.append(with_xla_sim(graph, chip))
        return results[-1].seconds

    for _ in range(repeat):
        theirs.append(measured(lambda: with_jax(graph, f"{chip}:2x2")))
        ours.append(measured(compiled))
    us, jax, result = min(ours), min(theirs), results[ours.index(min(ours))]
    cpu = min(one.cpu for one in ours) / min(one.cpu for one in theirs)
    assert result.hbm is not None and result.padding is not None and result.bound is not None, result.message
    return (
        f"{model:<10}{chip:<6}{result.status:<10}{result.hbm.total / 2**20:>10.1f}{result.hbm.aliased / 2**20:>10.1f}"
        f"{result.padding.padded / result.padding.logical:>9.2f}{result.bound.seconds * 1e6:>11.1f}{result.bound.mxu_share:>8.0%}"
        f"{result.peak_rss / 2**30:>9.2f}{jax.compiler:>10.1f}{us.compiler:>10.1f}{jax.wall:>9.1f}{us.wall:>9.1f}"
        f"{us.wall / jax.wall:>8.2f}{cpu:>8.2f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[], metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--chips", default="v5e,v6e")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--graphs", type=Path, help="keep captures here, and use those that are there")
    args = parser.parse_args()
    print(
        f"{'':<26}{'HBM':>10}{'donated':>10}{'padded':>9}{'bound':>11}{'MXU':>8}{'memory':>9}{'compiler, s':>20}{'whole, s':>18}{'ratio of':>16}\n"
        f"{'model':<10}{'chip':<6}{'verdict':<10}{'MiB':>10}{'MiB':>10}{'times':>9}{'µs, least':>11}{'at best':>8}"
        f"{'GiB':>9}{'jax':>10}{'xla_sim':>10}{'jax':>9}{'xla_sim':>9}{'wall':>8}{'CPU':>8}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for model in args.models or MODELS:
            folder = args.graphs or Path(scratch)
            kept = folder / f"{model}.pb"
            if not kept.is_file():
                folder.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(capture(model, Path(scratch)).read_bytes())
            for chip in args.chips.split(","):
                try:
                    print(row(model, kept, chip, args.repeat), flush=True)
                except TpuUnavailable as error:
                    print(f"skipped: {error}")
                    return 0
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    sys.exit(main())
