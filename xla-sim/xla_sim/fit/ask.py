"""What the command line asks: one slice, the smallest slice of a family, or the largest batch. Traces and compiles as needed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sim.compiler.cache import Cache, default_directory
from xla_sim.compiler.chips import ChipError, Topology, find_chip, find_topology
from xla_sim.compiler.scheduler import Limits, compile_all
from xla_sim.fit import interruption
from xla_sim.fit.annotate import tensor_specs
from xla_sim.fit.elsewhere import trace_in
from xla_sim.fit.load import load, read, trace, write
from xla_sim.fit.plan import FitError, Plan
from xla_sim.fit.question import Answer, Question, answer, prepare
from xla_sim.fit.search import NoVerdict, Search, Tries, fits, largest_batch, smallest_topology, stopped, stretch
from xla_sim.fit.sharding import Mesh
from xla_sim.fit.wording import verdict
from xla_sim.report.progress import progress_bar


@dataclass(frozen=True)
class Job:
    """The command line over [tool.xla_sim.fit]."""

    target: str
    topology: str
    mesh: Mesh | None
    batch_size: int | None
    checkpoint: str
    code: bool
    shardings: dict[str, Any]  # parameters and activations: patterns
    search: bool
    max_batch: int | None
    traced: Path | None
    out: Path
    limits: Limits
    cached: bool
    python: str = sys.executable  # that has torch_xla
    ready: Callable[[], None] = lambda: None  # called before something is compiled


@dataclass(frozen=True)
class Told:
    """The answer to report, the search that led to it, and whether Ctrl-C ended that."""

    answer: Answer
    search: Search | None = None
    interrupted: bool = False


def ask(job: Job) -> Told:
    """Raises what tracing, sharding and compiling raise, and KeyboardInterrupt when nothing was compiled by then."""
    with interruption.noted():
        return _ask(job)


def _ask(job: Job) -> Told:
    sources = _Sources(job)
    if ":" not in job.topology and not job.search:
        raise ChipError(
            f"{job.topology} is a family of chips: name a slice, as {find_chip(job.topology).one}, or add --search"
        )
    if job.search:
        return _search(job, sources)
    topology = find_topology(job.topology)
    return Told(sources.ask(topology, _mesh(job, topology), job.batch_size))


def _mesh(job: Job, topology: Topology) -> Mesh:
    mesh = job.mesh or stretch(None, topology.devices)
    assert mesh is not None
    return mesh


def _search(job: Job, sources: _Sources) -> Told:
    """As far as it gets: what was tried is told when it is interrupted, or when a compilation ends without a verdict."""
    tries = Tries(sources.ask, _say)
    found, best = [], None
    question = f"the search on {job.topology}"
    try:
        for asked, part in _parts(job, sources, tries):
            question = asked
            found.append(part())
            best = found[-1].best or best
            if found[-1].best is None:
                break
    except NoVerdict as without:
        asked = without.answer.question
        why = f"the search ended at a batch of {asked.plan.batch_size} on {asked.topology.name}: {verdict(without.answer)}"
        return Told(without.answer, stopped(question, tries, why))
    except KeyboardInterrupt:
        if not tries.made:
            raise
        search = stopped(
            question, tries, f"interrupted after {len(tries.made)} {'try' if len(tries.made) == 1 else 'tries'}"
        )
        return Told(search.best or tries.made[-1], search, interrupted=True)
    said = [one.conclusion for one in found]
    if not sources.varies and not job.traced:
        said.append(f"{job.target} has no parameter batch_size, so no other batch was tried")
    told = Search(", and ".join(one.question for one in found), tuple(tries.made), best, "; ".join(said))
    if best is not None:
        sources.keep(best)
    return Told(best or tries.made[-1], told)


def _parts(job: Job, sources: _Sources, tries: Tries) -> Any:
    """The searches that the job stands for, one after the other, each with its question."""
    if ":" in job.topology:
        if job.traced:
            raise FitError(
                "--traced holds one batch size, so it can't be searched: give the function, or a family of chips"
            )
        topology = find_topology(job.topology)
        start = sources.traced(job.batch_size)[0].batch_size
        mesh = _mesh(job, topology)
        yield (
            f"the largest batch on {topology.name}",
            lambda: largest_batch(topology, mesh, tries, start, job.max_batch),
        )
        return
    chip = find_chip(job.topology)
    plan, _ = sources.traced(job.batch_size)

    def check(mesh: Mesh) -> None:
        tensor_specs(plan, job.shardings.get("parameters", {}), mesh)

    yield (
        f"the smallest {chip.name} slice for a batch of {plan.batch_size}",
        lambda: smallest_topology(chip, job.mesh, plan.batch_size, tries, check),
    )
    if sources.varies:
        best = min(filter(fits, tries.made), key=lambda one: one.question.topology.chips)
        asked = best.question
        yield (
            f"the largest batch on {asked.topology.name}",
            lambda: largest_batch(asked.topology, asked.mesh, tries, plan.batch_size, job.max_batch),
        )


def _say(given: Answer, number: int) -> None:
    """A line for each try of a search, on standard error."""
    asked = given.question
    kept = ", from the cache" if given.result.cached else ""
    print(
        f"try {number}: batch {asked.plan.batch_size} on {asked.topology.name}: {verdict(given)}{kept}",
        file=sys.stderr,
        flush=True,
    )


class _Sources:
    """Traces, made when they are needed, and answers about them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._traces: dict[int | None, tuple[Plan, bytes]] = {}
        here = not job.traced and job.python == sys.executable
        self._function: Callable[..., Any] | None = load(job.target) if here else None
        self._varies = here and "batch_size" in inspect.signature(self._function).parameters  # type: ignore[arg-type]

    @property
    def varies(self) -> bool:
        """Whether the batch size can be set from outside."""
        return self._varies

    def traced(self, batch_size: int | None) -> tuple[Plan, bytes]:
        if batch_size not in self._traces:
            if self._job.traced is not None:
                self._traces[batch_size] = read(self._job.traced)
            elif self._function is None:
                job = self._job
                made, self._varies = trace_in(job.python, job.target, batch_size, job.checkpoint, job.out)
                self._traces[batch_size] = self._traces[made[0].batch_size] = made
            else:
                made = trace(self._function, self._job.target, batch_size, self._job.checkpoint)
                write(self._job.out, *made)
                self._traces[batch_size] = self._traces[made[0].batch_size] = made
        return self._traces[batch_size]

    def keep(self, best: Answer) -> None:
        """Leave the trace of this answer in the folder, for --traced."""
        if self._job.traced is None:
            write(self._job.out, best.question.plan, best.question.graph)

    def ask(self, topology: Topology, mesh: Mesh, batch_size: int | None) -> Answer:
        interruption.check()
        plan, graph = self.traced(batch_size)
        interruption.check()
        self._job.ready()
        table = self._job.shardings
        question = Question(
            plan, graph, topology, mesh, table.get("parameters", {}), table.get("activations", {}), self._job.code
        )
        requests = [prepare(question, self._job.out)]
        cache = Cache(default_directory()) if self._job.cached else None
        with progress_bar(requests, f"batch {plan.batch_size} for {topology.name}") as progress:
            (result,) = compile_all(requests, self._job.limits, cache, 1, progress, self._job.out / "logs")
        interruption.check()
        return answer(question, result)
