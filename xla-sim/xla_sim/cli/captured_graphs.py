"""What there is to compile: the graphs of a run directory, and for each of them a chip or a slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sim import hints
from xla_sim.compiler.chips import Topology, topology_for
from xla_sim.compiler.results import CompileRequest
from xla_sim.report.content.document import DocumentError, load_document


class InputError(ValueError):
    """There is nothing to compile, or it doesn't go with the topology; the message is a sentence for the user."""


@dataclass(frozen=True)
class Captured:
    """One graph on disk."""

    hash: str
    path: Path
    devices: int  # that its shardings are for; 1: none
    wide: tuple[str, ...]  # element types worth compiling narrowed as well: "f64", "c128", "s64"


def captured(path: Path, wanted: str | None, most: int) -> tuple[list[Captured], list[str]]:
    """The graphs of a run directory, those that ran most often first, and sentences on what was left out.

    Args:
        path: a run directory, a folder of .pb files, or one .pb file.
        wanted: the beginning of a hash.

    Raises:
        InputError: when there is none.
    """
    if path.is_file():
        return [_read(path.stem, path, ())], []
    if not path.is_dir():
        raise InputError(f"there is no {path}: make it with {hints.command()} run --out {path} SCRIPT")
    entries, reported = _entries(path)
    left = []
    lost = [hash for hash, file in entries if not file.is_file()]
    entries = [(hash, file) for hash, file in entries if file.is_file()]
    if wanted is not None and entries:
        entries = [(hash, file) for hash, file in entries if hash.startswith(wanted)]
        if not entries:
            raise InputError(f"no graph of {path} has a hash that begins with {wanted!r}")
    if not entries and lost:
        gone = "the graph" if len(lost) == 1 else f"all {len(lost)} graphs"
        raise InputError(
            f"{gone} of {path}/report.json {'is' if len(lost) == 1 else 'are'} no longer on disk: run the program again"
        )
    if not entries:
        raise InputError(
            f"{path} holds no graph: nothing was compiled on XLA in that run, or it was made by something else; "
            f"make it with {hints.command()} run --out {path} SCRIPT"
        )
    if lost:
        left.append(f"{len(lost)} graphs of the report were not kept on disk and can't be compiled")
    if len(entries) > most:
        left.append(
            f"{len(entries) - most} of {len(entries)} graphs are left out, those that ran least (--max-graphs {most})"
        )
    return [_read(hash, file, reported) for hash, file in entries[:most]], left


def _entries(directory: Path) -> tuple[list[tuple[str, Path]], tuple[str, ...]]:
    """Hash and file of each graph, and the wide types that the run reported."""
    report = directory / "report.json"
    if report.is_file():
        try:
            document = load_document(report)
        except DocumentError as error:
            raise InputError(str(error)) from error
        graphs = sorted(document.get("graphs") or (), key=lambda graph: -graph["executions"])
        files = [(str(graph["hash"]), directory / graph["hlo"]) for graph in graphs if graph.get("hlo")]
        wide = [finding for finding in document["findings"] if finding["rule"] == "wide-dtype"]
        if document.get("program"):
            return files, tuple((finding.get("evidence") or {}).get("dtype", "") for finding in wide)
    files = [(file.stem, file) for folder in (directory / "graphs", directory) for file in sorted(folder.glob("*.pb"))]
    return files, ()


def _read(hash: str, path: Path, reported: Sequence[str]) -> Captured:
    from xla_sim.compiler.narrow import WIDE, wide_types
    from xla_sim.hlo.protos import parse

    try:
        graph = path.read_bytes()
        module = parse("Module", graph)
        if not module.computations:
            raise ValueError("it has no computation")
        wide = tuple(kind for kind in wide_types(graph) if kind != "s64" or WIDE[kind] in reported)
        return Captured(hash, path, devices_of(module), wide)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} is no graph (a serialized HloModuleProto): {error}") from error


def devices_of(module: Any) -> int:
    """For how many devices the module's shardings are; 1 when it has none."""
    shardings = [one.sharding for body in module.computations for one in body.instructions if one.HasField("sharding")]
    return max((_devices(sharding) for sharding in shardings), default=1)


def _devices(sharding: Any) -> int:
    product = 1
    for size in sharding.tile_assignment_dimensions:
        product *= size
    return max([product, *map(_devices, sharding.tuple_shardings)])


def requests_for(graphs: Sequence[Captured], topologies: Sequence[Topology], explicit: bool) -> list[CompileRequest]:
    """A compilation for every graph and topology, and a second one with narrowed types where it computes in wide ones.

    Args:
        explicit: the user named slices; otherwise each is taken as large as the graph's shardings want it.

    Raises:
        InputError: when shardings and slice don't agree.
    """
    requests = []
    for graph in graphs:
        for topology in topologies:
            fitting = topology if explicit else topology_for(topology.chip, graph.devices)
            if fitting is None:
                raise InputError(
                    f"graph {graph.hash[:8]} is sharded over {graph.devices} devices, no slice of {topology.chip.name} has so many"
                )
            if explicit and graph.devices not in (1, fitting.devices):
                raise InputError(
                    f"graph {graph.hash[:8]} is sharded over {graph.devices} devices and {fitting.name} has {fitting.devices}"
                    f"{_suggest(topology, graph.devices)}"
                )
            for narrow in (False, True) if graph.wide else (False,):
                requests.append(CompileRequest(graph.hash, graph.path, fitting.name, graph.devices, narrow))
    return requests


def _suggest(topology: Topology, devices: int) -> str:
    other = topology_for(topology.chip, devices)
    return f": name one with {devices}, for example {other.name}" if other and other.devices == devices else ""
