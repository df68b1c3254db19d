"""What is inside each captured graph, read from its HLO: inputs, outputs and how often each op occurs."""

from __future__ import annotations

import collections
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_sim.observe.assemble import relative
from xla_sim.report.content.step_rows import brief
from xla_sim.trace import Graph

MOST_OPENED = 60  # graphs whose contents go into the report; the others keep their line in it
MOST_LISTED = 400  # inputs or outputs of one graph
MOST_ALIKE = 5  # parameters of one shape that are named
DTYPES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16", "int64": "s64", "int32": "s32"}
MOST_COMPARED = 8  # earlier graphs from the same line among which the nearest relative is looked for


def by_shape(parameters: Iterable[tuple[str, tuple[int, ...], str]]) -> dict[str, list[str]]:
    """Names of the model's parameters by their shape as HLO writes it: ``{"f32[10,64]": ["head.weight"]}``."""
    names: dict[str, list[str]] = {}
    for name, shape, dtype in parameters:
        names.setdefault(f"{DTYPES.get(dtype, dtype)}[{','.join(map(str, shape))}]", []).append(name)
    return names


def describe(
    graphs: Iterable[Graph], directory: Path, parameters: Mapping[str, list[str]] | None = None
) -> list[dict[str, Any]]:
    """One entry a graph; what is read from its HLO is null where that wasn't kept.

    Args:
        parameters: names by shape. torch_xla doesn't tell which input is which, but shape and line say what to look for.
    """
    entries = []
    earlier: dict[tuple[Any, ...], deque[tuple[str, Any]]] = {}
    for number, graph in enumerate(graphs):
        entry: dict[str, Any] = {
            "hash": graph.hash,
            "first_step": graph.first_step,
            "compiles": graph.compiles,
            "executions": graph.executions,
            "cause": graph.cause,
            "location": brief(graph.location),
            "hlo": graph.hlo,
            "text": _text(graph, directory),
            "seconds": graph.seconds or None,
            "input_count": graph.inputs,
            "output_count": graph.outputs,
            "inputs": None,
            "outputs": None,
            "ops": None,
            "opcodes": None,
            "differences": None,
        }
        module = _open(directory / graph.hlo) if graph.hlo and number < MOST_OPENED else None
        if module is not None:
            place = (graph.location.file, graph.location.line, graph.cause)
            relatives = earlier.setdefault(place, deque(maxlen=MOST_COMPARED))
            entry.update(_contents(module, parameters or {}), differences=_differences(module, relatives))
            relatives.append((graph.hash, module))
        entries.append(entry)
    return entries


def _text(graph: Graph, directory: Path) -> str:
    """Where its HLO is as text, relative to the run directory; empty when it wasn't written."""
    path = f"hlo/{graph.hash}.txt"
    return path if graph.hlo and (directory / path).is_file() else ""


def _open(path: Path) -> Any:
    """The graph, or None when its file is gone, torn, or can't be read here."""
    try:
        from xla_sim.hlo import module as hlo

        return hlo.parse(path.read_bytes())
    except (OSError, ValueError, ImportError):
        return None


def _differences(module: Any, earlier: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    """Everything that changed against the nearest of the earlier graphs, each given with its hash."""
    from xla_sim.hlo import difference

    known = list(earlier)
    relative = difference.nearest(module, [other for _, other in known])
    if relative is None:
        return None
    found = difference.difference(relative, module)
    hash = next(hash for hash, other in known if other is relative)
    return {"from": hash, "changes": list(found.details or (found.summary,))[:MOST_LISTED]}


def _contents(module: Any, parameters: Mapping[str, list[str]]) -> dict[str, Any]:
    inputs = [
        {
            "number": parameter.parameter,
            "name": parameter.name,
            "shape": str(parameter.shape),
            "bytes": parameter.shape.bytes,
            "donated": parameter.parameter in module.donated,
            "location": {"file": relative(parameter.file), "line": parameter.line, "function": ""},
            "shape_of": parameters.get(str(parameter.shape), [])[:MOST_ALIKE],
        }
        for parameter in module.parameters[:MOST_LISTED]
    ]
    outputs = [{"shape": str(shape), "bytes": shape.bytes} for shape in module.outputs[:MOST_LISTED]]
    opcodes = collections.Counter(instruction.opcode for instruction in module.instructions())
    return {"inputs": inputs, "outputs": outputs, "ops": _counted(module.ops()), "opcodes": _counted(opcodes)}


def _counted(counter: dict[str, int]) -> list[dict[str, Any]]:
    """Most frequent first, equals by name."""
    return [{"op": op, "count": count} for op, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))]
