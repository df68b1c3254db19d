"""The smallest slice on which a step fits, and the largest batch that fits on a slice: bisection over real compilations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .chips import Chip, Topology, topology_for
from .fit import Answer
from .sharding import FSDP, Mesh, ShardingError

Try = Callable[[Topology, Mesh, int], Answer]  # compile for a topology, with a mesh and a batch size


@dataclass(frozen=True)
class Search:
    """What was tried, in the order of tries, and the conclusion in words."""

    question: str
    tried: tuple[Answer, ...]
    best: Answer | None
    conclusion: str

    def to_json(self) -> dict[str, Any]:
        """The `search` of fit.json."""
        rows = [
            {
                "topology": one.question.topology.name,
                "chips": one.question.topology.chips,
                "batch_size": one.question.plan.batch_size,
                "status": one.result.status,
                "hbm": {"total": one.total, "capacity": one.capacity} if one.result.hbm else None,
                "bound": one.result.to_json()["bound"],
                "seconds": one.result.seconds,
            }
            for one in sorted(self.tried, key=lambda one: (one.question.topology.chips, one.question.plan.batch_size))
        ]
        return {"question": self.question, "answer": self.conclusion, "rows": rows}


def fits(given: Answer) -> bool:
    return given.result.status == "ok" and given.total <= given.capacity


def stretch(mesh: Mesh | None, devices: int) -> Mesh | None:
    """The mesh on another number of chips: `fsdp` takes up the difference, or the first axis; None when it can't."""
    if mesh is None:
        return Mesh(((FSDP, devices),))
    elastic = FSDP if FSDP in mesh.names else mesh.names[0]
    rest = mesh.size // mesh.ways([elastic])
    if devices % rest:
        return None
    return Mesh(tuple((name, devices // rest if name == elastic else size) for name, size in mesh.axes))


def smallest_topology(chip: Chip, mesh: Mesh | None, batch_size: int, attempt: Try) -> Search:
    """The smallest slice of the family, of a power of two chips, on which this batch fits.

    Raises ShardingError when the mesh and the batch suit none of them.
    """
    candidates: list[tuple[Topology, Mesh]] = []
    devices = 1
    while devices <= chip.largest * chip.devices_per_chip:
        topology, stretched = topology_for(chip, devices), stretch(mesh, devices)
        exact = topology is not None and topology.devices == devices  # no slice has fewer than four chips
        if topology and exact and stretched and batch_size % stretched.ways(stretched.batch_axes) == 0:
            candidates.append((topology, stretched))
        devices *= 2
    if not candidates:
        raise ShardingError(
            f"a batch of {batch_size} can't be divided over any {chip.name} slice with the mesh {mesh}: give another --batch-size"
        )
    tried: list[Answer] = []

    def good(index: int) -> bool:
        topology, stretched = candidates[index]
        tried.append(attempt(topology, stretched, batch_size))
        return fits(tried[-1])

    found = _first(len(candidates), good)
    question = f"the smallest {chip.name} slice for a batch of {batch_size}"
    if found is None:
        last = candidates[-1][0]
        return Search(
            question, tuple(tried), None, f"no {chip.name} slice up to {last.name} fits a batch of {batch_size}"
        )
    best = next(one for one in tried if one.question.topology == candidates[found][0])
    return Search(question, tuple(tried), best, f"{best.question.topology.name} with --mesh {best.question.mesh}")


def largest_batch(
    topology: Topology, mesh: Mesh, attempt: Try, known: Sequence[Answer] = (), limit: int = 4096
) -> Search:
    """The largest multiple of the batch axes that fits, up to `limit` examples a group of chips."""
    ways = mesh.ways(mesh.batch_axes)
    tried = list(known)

    def good(multiple: int) -> bool:
        same = [
            one
            for one in tried
            if one.question.plan.batch_size == multiple * ways and one.question.topology == topology
        ]
        if not same:
            tried.append(attempt(topology, mesh, multiple * ways))
        return fits(same[0] if same else tried[-1])

    low, high = 0, 1
    while high <= limit and good(high):
        low, high = high, high * 2
    while high - low > max(1, low // 8):  # to an eighth, as the compiler's own choices vary by about as much
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    question = f"the largest batch on {topology.name}"
    if not low:
        return Search(
            question, tuple(tried), None, f"not even a batch of {ways} fits on {topology.name} with --mesh {mesh}"
        )
    best = next(
        one for one in tried if one.question.plan.batch_size == low * ways and one.question.topology == topology
    )
    return Search(
        question,
        tuple(tried),
        best,
        f"a batch of {low * ways} on {topology.name} ({low} for each of {ways} parts of the batch)",
    )


def _first(count: int, good: Callable[[int], bool]) -> int | None:
    """The first index for which `good` holds, where it holds for all after the first; the small ones are cheap, so they come first."""
    low, high, step = 0, count, 1
    while low < count and step:
        probe = min(low + step - 1, count - 1)
        if good(probe):
            high = probe
            break
        low, step = probe + 1, step * 2
    while low < high:
        middle = (low + high) // 2
        if middle == high or good(middle):
            high = middle
        else:
            low = middle + 1
    return low if low < count else None
