"""``python -m xla_sim fit``: will the full-size model fit on that slice, sharded, and what is the least a step can take?"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import argtypes
from ..config import FAIL_ON, Config, ConfigError, fails, filter_findings, load_config, with_options
from ..trace import Finding, Location
from .cache import Cache, default_directory
from .chips import ChipError, Topology, find_chip, find_topology
from .cli import progress_bar
from .findings import RunReport, judge
from .fit import Answer, Question, answer, prepare, to_json
from .fit_load import Cannot, UserError, load, read, trace, write
from .fit_plan import FitError, NeedsValue, Plan
from .fit_search import Search, largest_batch, smallest_topology, stretch
from .fit_words import hardware, notes, refusal
from .pool import TpuUnavailable
from .scheduler import Interrupted, Limits, compile_all
from .sharding import Mesh, ShardingError, parse_mesh

OK, FINDINGS, WRONG, FAILED, CANNOT = range(5)
_KEYS = ("target", "topology", "mesh", "batch-size", "checkpoint", "code", "parameters", "activations")
_EPILOG = """\
The function builds the step and returns (model, optimizer, batch) or (model, optimizer, batch, loss). It runs under
torch.device("meta"), so nothing takes memory; batch is a tensor, tuple or dict of torch.empty(shape, dtype=…); loss is a
function of (model, batch), or of (model, optimizer, batch) for a whole step. A parameter batch_size is set by --batch-size.

  def llama(batch_size: int = 64):
      model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=32)).to(torch.bfloat16)
      ids = torch.empty(batch_size, 1024, dtype=torch.long)
      return model, torch.optim.AdamW(model.parameters()), {"input_ids": ids, "labels": ids}

Every option has its key in [tool.xla_sim.fit]; shardings by name of the parameter or of the module are tables there:
  parameters = {"*.attn.*.weight" = ["tensor", "fsdp"]}      activations = {"layers.*" = ["fsdp", "", "tensor"]}
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``fit`` command; ``main`` is its default."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "fit",
        help="will the full-size model fit on a pod slice, sharded? HBM a chip, collectives, a bound on step time",
        description="Trace one training step with placeholders (no memory, nothing executed), shard it and compile it for a slice. "
        "Tracing needs torch_xla 2.7 or newer; compiling needs jax and libtpu, here or in the Python that $XLA_SIM_TPU_PYTHON names.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", nargs="?", metavar="PACKAGE.MODULE:FUNCTION", help="what builds model, optimizer and batch"
    )
    parser.add_argument("--topology", metavar="NAME", help="a slice, as v5e:8x8; with --search also a family, as v5e")
    parser.add_argument(
        "--mesh", metavar="AXES", help="as fsdp=64 or data=4,fsdp=8,tensor=2 (default: fsdp over all chips)"
    )
    parser.add_argument("--batch-size", type=argtypes.positive, metavar="N", help="examples in a step, over all chips")
    parser.add_argument(
        "--checkpoint",
        metavar="WHAT",
        help="compute activations again in the backward pass: blocks, or a pattern of modules",
    )
    parser.add_argument(
        "--no-code",
        action="store_true",
        help="stop when HBM is laid out, before code is generated: the same answer without the code's bytes, many times faster",
    )
    parser.add_argument(
        "--search", action="store_true", help="find the smallest slice of a family, and the largest batch on it"
    )
    parser.add_argument(
        "--traced", type=Path, metavar="DIR", help="compile what an earlier fit traced into DIR; needs no torch"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reports/xla_fit"), metavar="DIR", help="default: reports/xla_fit"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the answer's JSON to FILE")
    parser.add_argument(
        "--timeout",
        type=argtypes.positive,
        default=3600,
        metavar="S",
        help="end a compilation after S seconds (default: 3600)",
    )
    parser.add_argument("--no-cache", action="store_true", help="compile again what is known")
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, help="exit with 1 at findings of this severity (default: warning)"
    )
    parser.set_defaults(main=main)
    return parser


@dataclass(frozen=True)
class _Job:
    """The command line over [tool.xla_sim.fit]."""

    args: argparse.Namespace
    config: Config
    target: str
    topology: str
    mesh: Mesh | None
    batch_size: int | None
    checkpoint: str
    code: bool


def main(args: argparse.Namespace) -> int:
    """The exit code: 0 it fits, 1 it doesn't or can't be planned, 2 wrong command, 3 the function failed, 4 not possible here."""
    try:
        return _fit(_job(args))
    except NeedsValue as error:
        return _refused(args, error)
    except (ConfigError, ChipError, ShardingError, FitError) as error:
        print(f"xla_sim fit: {error}", file=sys.stderr)
        return WRONG
    except UserError as error:
        print(f"{error}xla_sim fit: the function failed, see above", file=sys.stderr)
        return FAILED
    except Interrupted:
        print("xla_sim fit: interrupted; what was compiled is kept", file=sys.stderr)
        return FAILED
    except (TpuUnavailable, Cannot) as error:
        print(f"xla_sim fit: {error}", file=sys.stderr)
        return CANNOT


def _job(args: argparse.Namespace) -> _Job:
    config = with_options(load_config(), fail_on=args.fail_on)
    table = config.fit
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"[tool.xla_sim.fit] has no key {key!r}; it has {', '.join(_KEYS)}")
    target, topology = args.target or table.get("target", ""), args.topology or table.get("topology", "")
    if not target and not args.traced:
        raise ConfigError(
            "fit needs a function, as package.module:function, or target in [tool.xla_sim.fit]; see fit --help"
        )
    if not topology:
        raise ConfigError("fit needs --topology, as v5e:8x8, or topology in [tool.xla_sim.fit]")
    # a mesh of the configuration is made for the topology of the configuration
    mesh = args.mesh or (table.get("mesh", "") if topology == table.get("topology", topology) else "")
    return _Job(
        args,
        config,
        target,
        topology,
        parse_mesh(mesh) if mesh else None,
        args.batch_size or table.get("batch-size"),
        args.checkpoint or table.get("checkpoint", ""),
        bool(table.get("code", True)) and not args.no_code,
    )


def _fit(job: _Job) -> int:
    sources = _Sources(job)
    if ":" not in job.topology and not job.args.search:
        raise ChipError(
            f"{job.topology} is a family of chips: name a slice, as {find_chip(job.topology).one}, or add --search"
        )
    if job.args.search:
        found = _search(job, sources)
        if found.best is None:
            return _report(job, found.tried[-1], found)
        return _report(job, found.best, found)
    topology = find_topology(job.topology)
    mesh = job.mesh or stretch(None, topology.devices)
    assert mesh is not None
    return _report(job, sources.ask(topology, mesh, job.batch_size), None)


def _search(job: _Job, sources: _Sources) -> Search:
    if ":" in job.topology:
        topology = find_topology(job.topology)
        mesh = job.mesh or stretch(None, topology.devices)
        assert mesh is not None
        return largest_batch(topology, mesh, sources.ask)
    plan, _ = sources.traced(job.batch_size)
    chip = find_chip(job.topology)
    first = smallest_topology(
        chip, job.mesh, plan.batch_size, lambda slice, mesh, _: sources.ask(slice, mesh, job.batch_size)
    )
    if first.best is None or not sources.varies:
        return first
    asked = first.best.question
    second = largest_batch(asked.topology, asked.mesh, sources.ask, first.tried)
    best = second.best or first.best
    return Search(
        f"{first.question}, and {second.question}", second.tried, best, f"{first.conclusion}; {second.conclusion}"
    )


class _Sources:
    """Traces, made when they are needed, and answers about them."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._traces: dict[int | None, tuple[Plan, bytes]] = {}
        self._function = None if job.args.traced else load(job.target)

    @property
    def varies(self) -> bool:
        """Whether the batch size can be set from outside."""
        code = getattr(self._function, "__code__", None)
        return code is not None and "batch_size" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def traced(self, batch_size: int | None) -> tuple[Plan, bytes]:
        if batch_size not in self._traces:
            if self._function is None:
                self._traces[batch_size] = read(self._job.args.traced)
            else:
                made = trace(self._function, self._job.target, batch_size, self._job.checkpoint)
                write(self._job.args.out, *made)
                self._traces[batch_size] = made
        return self._traces[batch_size]

    def ask(self, topology: Topology, mesh: Mesh, batch_size: int | None) -> Answer:
        table = self._job.config.fit
        plan, graph = self.traced(batch_size)
        shardings = table.get("parameters", {}), table.get("activations", {})
        return self._compile(Question(plan, graph, topology, mesh, *shardings, self._job.code))

    def _compile(self, question: Question) -> Answer:
        requests = [prepare(question, self._job.args.out)]
        cache = None if self._job.args.no_cache else Cache(default_directory())
        limits = Limits(float(self._job.args.timeout))
        with progress_bar(requests) as progress:
            (result,) = compile_all(requests, limits, cache, 1, progress, self._job.args.out / "logs")
        return answer(question, result)


def _report(job: _Job, given: Answer, search: Search | None) -> int:
    """Write fit.json and the reports beside it, print, and hand back the exit code."""
    said = notes(given)
    findings = filter_findings(judge([given.result], RunReport()), job.config) if given.result.status != "ok" else []
    document = to_json(given, said, [finding.as_dict() for finding in findings])
    document["hardware"] = hardware(given)
    if search is not None:
        document["search"] = search.to_json()
        if search.best is not None:
            findings = []
    _write(job.args, document)
    return FINDINGS if fails(findings, job.config.fail_on) else OK


def _write(args: argparse.Namespace, document: dict[str, Any]) -> None:
    from ..report import print_terminal, write_reports
    from ..report.document import load_directory
    from ..report.document import to_json as text
    from ..report.files import write_atomic

    args.out.mkdir(parents=True, exist_ok=True)
    if args.json:
        write_atomic(args.json, text(document))
    write_atomic(args.out / "fit.json", text(document))
    whole = load_directory(args.out)
    write_reports(args.out, whole)
    print_terminal(whole, args.out)


def _refused(args: argparse.Namespace, error: NeedsValue) -> int:
    """A step that reads a value: a finding at its line."""
    from ..rules import find_rule

    message, fix = refusal(error)
    place = error.place
    location = Location(os.path.relpath(place.file), place.line, place.function) if place else Location()
    finding: Finding = replace(
        find_rule("host-sync").finding(message, fix, location, "error", operation=error.operation)
    )
    document = {"schema": 1, "kind": "fit", "target": args.target or "", "findings": [finding.as_dict()]}
    _write(args, document)
    return FINDINGS
