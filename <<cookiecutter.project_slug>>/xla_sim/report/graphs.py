"""What is inside each captured graph, read from its HLO: inputs, outputs and how often each op occurs."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xla_sim.report.steps import brief
from xla_sim.trace import Graph

MOST_OPENED = 60  # graphs whose contents go into the report; the others keep their line in it
MOST_LISTED = 400  # inputs or outputs of one graph


def describe(graphs: Iterable[Graph], directory: Path) -> list[dict[str, Any]]:
    """One entry a graph; ``inputs``, ``outputs``, ``ops`` and ``opcodes`` are null where the HLO wasn't kept."""
    entries = []
    for number, graph in enumerate(graphs):
        entry: dict[str, Any] = {
            "hash": graph.hash,
            "first_step": graph.first_step,
            "compiles": graph.compiles,
            "executions": graph.executions,
            "cause": graph.cause,
            "location": brief(graph.location),
            "hlo": graph.hlo,
            "seconds": graph.seconds or None,
            "input_count": graph.inputs,
            "output_count": graph.outputs,
            "inputs": None,
            "outputs": None,
            "ops": None,
            "opcodes": None,
        }
        if graph.hlo and number < MOST_OPENED:
            entry.update(_contents(directory / graph.hlo) or {})
        entries.append(entry)
    return entries


def _contents(path: Path) -> dict[str, Any] | None:
    try:
        from xla_sim import hlo

        module = hlo.parse(path.read_bytes())
    except (OSError, ValueError, ImportError):
        return None  # kept out of the report: the graph stays in it with what the runtime said
    inputs = [
        {
            "number": parameter.parameter,
            "name": parameter.name,
            "shape": str(parameter.shape),
            "bytes": parameter.shape.bytes,
            "donated": parameter.parameter in module.donated,
        }
        for parameter in module.parameters[:MOST_LISTED]
    ]
    outputs = [{"shape": str(shape), "bytes": shape.bytes} for shape in module.outputs[:MOST_LISTED]]
    opcodes = collections.Counter(instruction.opcode for instruction in module.instructions())
    return {"inputs": inputs, "outputs": outputs, "ops": _counted(module.ops()), "opcodes": _counted(opcodes)}


def _counted(counter: dict[str, int]) -> list[dict[str, Any]]:
    """Most frequent first, equals by name."""
    return [{"op": op, "count": count} for op, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))]
