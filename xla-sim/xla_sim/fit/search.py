"""The smallest slice on which a step fits, and the largest batch that fits on a slice: bisection over real compilations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xla_sim.compiler.chips import Chip, Topology, topology_for
from xla_sim.fit.question import Answer
from xla_sim.fit.sharding import FSDP, Mesh, ShardingError

Try = Callable[[Topology, Mesh, int], Answer]  # compile for a topology, with a mesh and a batch size
# how far a search goes unless it is told to: examples for each part of the batch, or so many times the batch it begins with
LIMIT, TIMES = 4096, 64


@dataclass(frozen=True)
class Search:
    """What was tried, in the order of tries, and the conclusion in words."""

    question: str
    tried: tuple[Answer, ...]
    best: Answer | None
    conclusion: str
    complete: bool = True  # False: interrupted, or ended by a compilation without a verdict

    def to_json(self) -> dict[str, Any]:
        """The `search` of fit.json."""
        rows = [
            {
                "topology": one.question.topology.name,
                "chips": one.question.topology.chips,
                "mesh": dict(one.question.mesh.axes),
                "batch_size": one.question.plan.batch_size,
                "status": one.result.status,
                "hbm": {"total": one.total, "capacity": one.capacity} if one.result.hbm else None,
                "bound": one.result.to_json()["bound"],
                "seconds": one.result.seconds,
                "cached": one.result.cached,
            }
            for one in sorted(self.tried, key=lambda one: (one.question.topology.chips, one.question.plan.batch_size))
        ]
        return {"question": self.question, "answer": self.conclusion, "complete": self.complete, "rows": rows}


class NoVerdict(Exception):
    """A compilation that says neither that the step fits nor that it doesn't."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.result.message)
        self.answer = answer


def fits(given: Answer) -> bool:
    return given.result.status == "ok" and given.total <= given.capacity


class Tries:
    """Real compilations, each made once, in the order in which they were made; `tell` hears of each."""

    def __init__(self, attempt: Try, tell: Callable[[Answer, int], None] = lambda *_: None) -> None:
        self._attempt, self._tell = attempt, tell
        self.made: list[Answer] = []

    def known(self, topology: Topology, batch_size: int) -> Answer | None:
        asked = (topology, batch_size)
        return next((one for one in self.made if (one.question.topology, one.question.plan.batch_size) == asked), None)

    def fits(self, topology: Topology, mesh: Mesh, batch_size: int) -> bool:
        """Whether it fits; raises NoVerdict where the compiler gave no answer."""
        answer = self.known(topology, batch_size)
        if answer is None:
            answer = self._attempt(topology, mesh, batch_size)
            self.made.append(answer)
            self._tell(answer, len(self.made))
        if answer.result.status not in ("ok", "oom"):
            raise NoVerdict(answer)
        return fits(answer)


def stretch(mesh: Mesh | None, devices: int) -> Mesh | None:
    """The mesh on another number of chips: `fsdp` takes up the difference, or the first axis; None when it can't."""
    if mesh is None:
        return Mesh(((FSDP, devices),))
    elastic = FSDP if FSDP in mesh.names else mesh.names[0]
    rest = mesh.size // mesh.ways([elastic])
    if devices % rest:
        return None
    return Mesh(tuple((name, devices // rest if name == elastic else size) for name, size in mesh.axes))


def smallest_topology(
    chip: Chip, mesh: Mesh | None, batch_size: int, tries: Tries, check: Callable[[Mesh], None] = lambda _: None
) -> Search:
    """The smallest slice of the family, of a power of two chips, on which this batch fits.

    Raises ShardingError when the mesh, the batch and the shardings (`check` raises it for a mesh) suit none of them.
    """
    candidates = _candidates(chip, mesh, batch_size, check)
    found = _first(len(candidates), lambda index: tries.fits(*candidates[index], batch_size))
    question = f"the smallest {chip.name} slice for a batch of {batch_size}"
    if found is not None:
        topology, chosen = candidates[found]
        best = tries.known(topology, batch_size)
        smallest = (
            f"the smallest {chip.name} slice that fits a batch of {batch_size} is {topology.name}, with --mesh {chosen}"
        )
        return Search(question, tuple(tries.made), best, smallest)
    last, used = candidates[-1]
    conclusion = f"no {chip.name} slice up to {last.name} fits a batch of {batch_size}"
    if 2 * last.chips <= chip.largest:
        conclusion += (
            f", which --mesh {used} can't divide over more chips: a larger --batch-size could, or an axis tensor=N"
        )
    return Search(question, tuple(tries.made), None, conclusion)


def _candidates(
    chip: Chip, mesh: Mesh | None, batch_size: int, check: Callable[[Mesh], None]
) -> list[tuple[Topology, Mesh]]:
    candidates: list[tuple[Topology, Mesh]] = []
    refusal: ShardingError | None = None
    devices = 1
    while devices <= chip.largest * chip.devices_per_chip:
        topology, stretched = topology_for(chip, devices), stretch(mesh, devices)
        exact = topology is not None and topology.devices == devices  # no slice has fewer than four chips
        devices *= 2
        if not (topology and exact and stretched) or batch_size % stretched.ways(stretched.batch_axes):
            continue
        try:
            check(stretched)
        except ShardingError as error:
            refusal = refusal or error
        else:
            candidates.append((topology, stretched))
    if not candidates:
        raise refusal or ShardingError(
            f"a batch of {batch_size} can't be divided over any {chip.name} slice with the mesh {mesh or FSDP}: give another "
            "--batch-size"
        )
    return candidates


def largest_batch(topology: Topology, mesh: Mesh, tries: Tries, start: int = 1, limit: int | None = None) -> Search:
    """The largest multiple of the batch axes that fits, to an eighth, from the batch `start` on and up to the batch `limit`.

    Raises ShardingError when `limit` is less than one example for each part of the batch.
    """
    ways = mesh.ways(mesh.batch_axes)
    most = max(LIMIT, TIMES * start // ways) if limit is None else limit // ways
    if not most:
        raise ShardingError(
            f"--max-batch {limit}: the mesh {mesh} divides the batch into {ways} parts, so {ways} is the least"
        )

    def good(multiple: int) -> bool:
        return tries.fits(topology, mesh, multiple * ways)

    low, high, probe = 0, most + 1, min(most, max(1, start // ways))
    while low < most and good(probe):
        low, probe = probe, min(2 * probe, most)
    if low < most:
        high = probe
    while low < most and high - low > max(
        1, low // 8
    ):  # to an eighth, as the compiler's own choices vary by about as much
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    question = f"the largest batch on {topology.name}"
    if not low:
        conclusion = f"not even a batch of {ways} fits on {topology.name} with --mesh {mesh}"
        return Search(question, tuple(tries.made), None, conclusion)
    each = f" ({low} for each of {ways} parts of the batch)" if ways > 1 else ""
    if low < most:
        conclusion = f"a batch of {low * ways} fits on {topology.name}{each}, {high * ways} doesn't"
    elif limit is None:
        more = "larger ones weren't tried, --max-batch says how far to go"
        conclusion = f"a batch of at least {low * ways} fits on {topology.name}{each}: {more}"
    else:
        conclusion = f"a batch of {low * ways} fits on {topology.name}{each}, as large as --max-batch allows"
    return Search(question, tuple(tries.made), tries.known(topology, low * ways), conclusion)


def stopped(question: str, tries: Tries, why: str) -> Search:
    """What is known when the search ended before its answer."""
    good = [one for one in tries.made if fits(one)]
    best = max(good, key=lambda one: (-one.question.topology.chips, one.question.plan.batch_size), default=None)
    known = f"; a batch of {best.question.plan.batch_size} fits on {best.question.topology.name}" if best else ""
    return Search(question, tuple(tries.made), best, f"{why}{known}", complete=False)


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
