"""``python -m xla_sim fit``: will the full-size model fit on that slice, sharded, and what is the least a step can take?"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from xla_sim.cli import options
from xla_sim.cli.options import CANNOT, FAILED, FINDINGS, OK, WRONG
from xla_sim.compiler.chips import ChipError
from xla_sim.compiler.pool import TpuUnavailable
from xla_sim.compiler.scheduler import Limits
from xla_sim.config import Config, load_config, with_options
from xla_sim.environment.torch_python import NoTorchXla
from xla_sim.fit.ask import Job, Told, ask
from xla_sim.fit.load import Cannot, UserError
from xla_sim.fit.plan import FitError, NeedsValue
from xla_sim.fit.question import to_json
from xla_sim.fit.sharding import ShardingError, parse_mesh
from xla_sim.fit.wording import hardware, notes, refusal
from xla_sim.rules.judging import RunReport, judge_compiled
from xla_sim.rules.selection import FAIL_ON, ConfigError, fails
from xla_sim.trace import Finding, Location

_KEYS = {"target": str, "topology": str, "mesh": str, "batch-size": int, "checkpoint": str, "code": bool,
         "timeout": int, "memory": str, "parameters": dict, "activations": dict}  # fmt: skip
_EPILOG = """\
The function builds the step and returns (model, optimizer, batch) or (model, optimizer, batch, loss). It runs under
torch.device("meta"), so nothing takes memory; batch is a tensor, tuple or dict of torch.empty(shape, dtype=…); loss is a
function of (model, batch), or of (model, optimizer, batch) for a whole step. A parameter batch_size is set by --batch-size.

  def llama(batch_size: int = 64):
      model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=32)).to(torch.bfloat16)
      ids = torch.empty(batch_size, 1024, dtype=torch.long)
      return model, torch.optim.AdamW(model.parameters()), {"input_ids": ids, "labels": ids}

The bound on a step's time is that of a chip's arithmetic and HBM: what the chips exchange is listed in bytes, and its time comes on top
where it can't be hidden.

[tool.xla_sim.fit] takes target, topology, mesh, batch-size, checkpoint, code, timeout and memory; shardings by name of the parameter or
of the module are tables there:
  parameters = {"*.attn.*.weight" = ["tensor", "fsdp"]}      activations = {"layers.*" = ["fsdp", "", "tensor"]}
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the ``fit`` command; ``main`` is its default."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "fit",
        help="will the full-size model fit on a pod slice, sharded? HBM a chip, collectives, a bound on step time",
        description="Trace one training step with placeholders (no memory, nothing executed), shard it and compile it for a slice. "
        "Tracing needs torch_xla 2.7 or newer in the Python of your program (see --python); compiling needs jax and libtpu, in the Python that "
        "$XLA_SIM_TPU_PYTHON names or in an environment that is made once (see --no-install).",
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
    parser.add_argument("--batch-size", type=options.positive, metavar="N", help="examples in a step, over all chips")
    parser.add_argument(
        "--checkpoint",
        metavar="WHAT",
        help="compute activations again in the backward pass: blocks, or a pattern of modules",
    )
    code = parser.add_mutually_exclusive_group()
    code.add_argument(
        "--code",
        action="store_true",
        default=None,
        help="generate the program's code too, for its bytes and to know that every kernel can be generated: of a large model on "
        "many chips that takes ten times as long (default: stop when HBM is laid out)",
    )
    code.add_argument(
        "--no-code", dest="code", action="store_false", help="stop when HBM is laid out, which is the default"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="try until it is known: the largest batch on a slice, beginning with --batch-size; of a family, as v5e, first the "
        "smallest slice that fits",
    )
    parser.add_argument(
        "--max-batch",
        type=options.positive,
        metavar="N",
        help="with --search: try no larger batch (default: 4096 for each part of the batch, or 64 times the batch that it begins with)",
    )
    parser.add_argument(
        "--traced", type=Path, metavar="DIR", help="compile what an earlier fit traced into DIR; needs no torch"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reports/xla_fit"), metavar="DIR", help="default: reports/xla_fit"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the answer's JSON to FILE")
    parser.add_argument(
        "--timeout", type=options.seconds, metavar="S", help="end a compilation after S seconds (default: 3600)"
    )
    parser.add_argument(
        "--memory",
        type=options.size,
        metavar="BYTES",
        help="end a compilation that takes more of this machine's memory, as 8GiB (default: 85 %% of it)",
    )
    options.add_python(parser)
    options.add_no_install(parser)
    parser.add_argument("--no-cache", action="store_true", help="compile again what is known")
    parser.add_argument(
        "--fail-on", choices=FAIL_ON, help="exit with 1 at findings of this severity (default: warning)"
    )
    parser.set_defaults(main=main)
    return parser


def main(args: argparse.Namespace) -> int:
    """The exit code: 0 it fits, 1 it doesn't or can't be planned, 2 wrong command, 3 the function failed or Ctrl-C, 4 not possible here."""
    try:
        config = with_options(load_config(), fail_on=args.fail_on)
        return _tell(args, config, ask(_job(args, config.fit)))
    except NeedsValue as error:
        return _refused(args, error)
    except (ConfigError, ChipError, ShardingError, FitError) as error:
        print(f"xla_sim fit: {error}", file=sys.stderr)
        return WRONG
    except UserError as error:
        print(f"{error}xla_sim fit: the function failed, see above", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("xla_sim fit: interrupted", file=sys.stderr)
        return FAILED
    except OSError as error:  # also a full disk of temporary files
        print(f"xla_sim fit: {error.filename or args.out}: {error.strerror or error}", file=sys.stderr)
        return CANNOT
    except (TpuUnavailable, Cannot, NoTorchXla) as error:
        print(f"xla_sim fit: {error}", file=sys.stderr)
        return CANNOT


def _job(args: argparse.Namespace, table: dict[str, Any]) -> Job:
    _check_table(table)
    target, topology = args.target or table.get("target", ""), args.topology or table.get("topology", "")
    if not target and not args.traced:
        raise ConfigError(
            "fit needs a function, as package.module:function, or target in [tool.xla_sim.fit]; see fit --help"
        )
    if not topology:
        raise ConfigError("fit needs --topology, as v5e:8x8, or topology in [tool.xla_sim.fit]")
    if args.max_batch and not args.search:
        raise ConfigError("--max-batch is the end of a search: give --search too, or --batch-size for one batch")
    # a mesh of the configuration is made for the topology of the configuration
    mesh = args.mesh or (table.get("mesh", "") if topology == table.get("topology", topology) else "")
    return Job(
        target,
        topology,
        parse_mesh(mesh) if mesh else None,
        args.batch_size or table.get("batch-size"),
        args.checkpoint or table.get("checkpoint", ""),
        table.get("code", False) if args.code is None else args.code,
        {key: table.get(key, {}) for key in ("parameters", "activations")},
        args.search,
        args.max_batch,
        args.traced,
        args.out,
        Limits(float(args.timeout or table.get("timeout", 3600)), args.memory or _size(table.get("memory"))),
        not args.no_cache,
        sys.executable if args.traced else options.torch_python(args).path,
        partial(options.use_compiler, args),
    )


def _check_table(table: dict[str, Any]) -> None:
    for key, value in table.items():
        if key not in _KEYS:
            raise ConfigError(f"[tool.xla_sim.fit] has no key {key!r}; it has {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            kind = {str: "text", int: "a whole number", bool: "true or false", dict: "a table"}[_KEYS[key]]
            raise ConfigError(f"[tool.xla_sim.fit] {key} is {value!r}; it is {kind}")


def _size(text: str | None) -> int | None:
    try:
        return options.size(text) if text else None
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"[tool.xla_sim.fit] memory: {error}") from None


def _tell(args: argparse.Namespace, config: Config, told: Told) -> int:
    """Write fit.json and the reports beside it, print, and hand back the exit code."""
    given, search = told.answer, told.search
    findings = judge_compiled([given.result], RunReport(), config.names()) if given.result.status != "ok" else []
    document = to_json(given, notes(given), [finding.as_dict() for finding in findings])
    document["hardware"] = hardware(given)
    if search is not None:
        document["search"] = search.to_json()
    _write(args, document)
    if told.interrupted:
        print(
            "xla_sim fit: interrupted; what was compiled is kept, the same command goes on from there", file=sys.stderr
        )
        return FAILED
    return FINDINGS if fails(findings, config.fail_on) else OK


def _write(args: argparse.Namespace, document: dict[str, Any]) -> None:
    from xla_sim.report.publish import publish

    args.out.mkdir(parents=True, exist_ok=True)
    publish("fit", document, args.out, args.json)


def _refused(args: argparse.Namespace, error: NeedsValue) -> int:
    """A step that reads a value: a finding at its line."""
    from xla_sim.rules import find_rule

    message, fix = refusal(error)
    place = error.place
    location = Location(os.path.relpath(place.file), place.line, place.function) if place else Location()
    finding: Finding = replace(
        find_rule("host-sync").finding(message, fix, location, "error", operation=error.operation)
    )
    document = {"schema": 1, "kind": "fit", "target": args.target or "", "findings": [finding.as_dict()]}
    _write(args, document)
    return FINDINGS
