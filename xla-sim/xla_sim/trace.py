"""What was observed of one run of a training program: plain, frozen data, and the only thing that rules read.

A step is what lies between two step marks (``torch_xla.sync()``, ``xm.mark_step()``, the end of a
``torch_xla.step()`` block, a parallel loader's next batch). Bytes are bytes, times are seconds, steps count from 1;
step 0 is what ran before the first mark closed any work. Source: the event log that `xla_sim.observer` writes.
"""

from __future__ import annotations

import dataclasses
import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True)
class Frame:
    """One Python frame."""

    file: str  # as the interpreter names it, absolute where it could be
    line: int
    function: str


@dataclass(frozen=True)
class Location:
    """The user's own line, and the chain of frames below it, innermost first."""

    file: str = ""  # relative to the working directory when it lies below it
    line: int = 0  # 0: no line is to blame
    function: str = ""
    frames: tuple[Frame, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else (self.file or "-")


@dataclass(frozen=True)
class Finding:
    """One thing that a TPU would punish, with the evidence and the change to make."""

    rule: str  # the stable handle: "host-sync"
    code: str  # "XLA201"
    severity: str  # "info", "warning" or "error"
    message: str  # what was seen, in one sentence with the numbers in it
    fix: str  # the change to make, in one sentence
    location: Location = field(default_factory=Location)
    evidence: dict[str, Any] = field(default_factory=dict)  # JSON values only

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Execution:
    """One graph handed to the device."""

    graph: str  # the graph's hash
    cause: str  # "sync", "read", "loader", "compile" (torch_xla.compile), "dynamo" or "unknown"
    location: Location
    compiled: bool  # it had to be compiled first
    early: bool = False  # it ran before the step's first module and read nothing of the step's batch: it follows a mark


@dataclass(frozen=True)
class Forward:
    """Calls of outermost modules within a step, grouped by what they were given."""

    module: str  # class name
    training: bool
    grad: bool  # gradients were enabled
    shapes: tuple[tuple[int, ...], ...]  # of the tensor arguments
    count: int = 1
    location: Location = field(default_factory=Location)


@dataclass(frozen=True)
class Step:
    """What happened up to one step mark; the last one of a trace may have no mark."""

    index: int  # counts from 1
    marked: bool  # closed by a step mark; False for what the program left behind at its end
    location: Location  # of the mark
    end: float  # seconds since the program started
    executions: tuple[Execution, ...] = ()
    forwards: tuple[Forward, ...] = ()
    backwards: int = 0
    optimizers: tuple[int, ...] = ()  # ids of the optimizers that stepped, in order, with repetition
    to_device: int | None = None  # bytes; None: not measured at this step
    to_host: int | None = None  # bytes; None: not measured at this step
    fallbacks: dict[str, int] = field(default_factory=dict)  # op: calls
    repeats: int = 1  # steps like this one in a row that were counted and not stored

    @property
    def trains(self) -> bool:
        return bool(self.backwards or self.optimizers)

    @property
    def works(self) -> bool:
        """Whether anything happened: marks on an empty graph are no steps."""
        return bool(self.executions or self.forwards or self.trains)


@dataclass(frozen=True)
class Graph:
    """One graph that was compiled; ``hlo`` is relative to the run directory, empty when it wasn't kept."""

    hash: str
    first_step: int
    compiles: int
    executions: int
    cause: str
    location: Location
    inputs: int
    outputs: int
    seconds: float  # of compilation; 0.0: unknown
    hlo: str = ""


@dataclass(frozen=True)
class Fallback:
    """An op without a lowering that ran on the host, and where it was called."""

    op: str  # "aten::glu_backward"
    count: int
    location: Location


@dataclass(frozen=True)
class Optimizer:
    """What was seen of one ``torch.optim.Optimizer``. Names are the module's parameter names, or "" when unknown."""

    id: int
    name: str  # class name
    created: Location
    stepped: Location  # of the first step
    steps: int
    parameters: int
    device: str  # type of the device that its parameters are on: "xla", "cpu"
    without_grad: tuple[tuple[str, tuple[int, ...], bool], ...] = ()  # never had one: name, shape, requires_grad
    on_host: int = 0  # of those without gradient: how many are not on the XLA device
    replaced: int = 0  # of those without gradient: how many a trained parameter took the place of
    orphans: tuple[str, ...] = ()  # trained parameters that no optimizer holds and that match one without gradient
    uncleared: int = 0  # steps at which gradients still held those of the step before
    uncleared_of: int = 0  # steps at which that could be told
    accumulated: bool = False  # more than one backward between the steps


@dataclass(frozen=True)
class Fact:
    """Anything else that was seen, as name and values: "tie-broken", "nonfinite", "pickled", "upload", …"""

    name: str
    step: int
    location: Location
    values: dict[str, Any] = field(default_factory=dict)


class Count(int):
    """A count that remembers the trace it is of, so that a failing assertion can show the graphs."""

    name: str
    trace: Trace

    @classmethod
    def of(cls, trace: Trace, name: str, value: int) -> Count:
        count = cls(value)
        count.name, count.trace = name, trace
        return count


@dataclass(frozen=True, repr=False)
class Trace:
    """Everything that was seen of one run."""

    directory: Path  # where the graphs are
    argv: tuple[str, ...]
    exit: int | None  # the program's exit status; None: still unknown; negative: the signal that killed it
    ending: str  # "" (it ended by itself), or a sentence: "timed out after 60 s", "was killed by SIGKILL", …
    stack: dict[str, str]  # python, torch, torch_xla, device
    seconds: float  # wall time of the program
    timeline: tuple[Step, ...] = ()
    graphs: tuple[Graph, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    facts: tuple[Fact, ...] = ()
    unknown: tuple[str, ...] = ()  # what this torch_xla can't tell, in words
    metrics: str = ""  # torch_xla's own metrics report
    warmup_steps: int = 2
    parameters: tuple[tuple[str, tuple[int, ...], str], ...] = ()  # of the modules: name, shape, torch's dtype
    sources: tuple[str, ...] = ()  # files of the program's own code; empty when it was killed
    findings: tuple[Finding, ...] = ()
    result: Any = None  # what the callable returned, for tests

    @property
    def steps(self) -> int:
        """Step marks that closed some work."""
        return Count.of(self, "steps", sum(step.repeats for step in self.timeline if step.marked and step.works))

    @property
    def compiles(self) -> int:
        return Count.of(self, "compiles", sum(graph.compiles for graph in self.graphs))

    @property
    def compiles_after_warmup(self) -> int:
        """Compilations in steps later than the warm-up."""
        late = (step for step in self.timeline if step.index > self.warmup_steps)
        count = sum(execution.compiled for step in late for execution in step.executions)
        return Count.of(self, "compiles_after_warmup", count)

    @property
    def executions(self) -> int:
        return Count.of(self, "executions", sum(len(step.executions) * step.repeats for step in self.timeline))

    def facts_named(self, name: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.name == name]

    def graph(self, hash: str) -> Graph | None:
        return next((graph for graph in self.graphs if graph.hash == hash), None)

    def __repr__(self) -> str:
        lines = [f"  {one.location}: {one.code} {one.rule}, {one.severity}: {one.message}" for one in self.findings]
        return "\n".join([f"<Trace of {self._in_short()}>", *lines])

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        rows = "".join(
            f"<tr><td>{html.escape(str(one.location))}</td><td>{one.code} {one.rule}</td><td>{one.severity}</td>"
            f"<td>{html.escape(one.message)}<br><i>{html.escape(one.fix)}</i></td></tr>"
            for one in self.findings
        )
        heads = "".join(f"<th>{head}</th>" for head in ("where", "rule", "severity", "what, and the fix"))
        return f"<p><b>{html.escape(self._in_short())}</b></p>" + (
            f"<table><tr>{heads}</tr>{rows}</table>" if rows else ""
        )

    def _in_short(self) -> str:
        ended = self.ending or ("" if self.exit == 0 else f"ended with exit status {self.exit}")
        counts = ((self.steps, "step"), (self.compiles, "compilation"), (len(self.findings), "finding"))
        told = [f"{int(number)} {noun}{'' if number == 1 else 's'}" for number, noun in counts]
        return ", ".join(filter(None, [" ".join(self.argv), *told, ended]))
