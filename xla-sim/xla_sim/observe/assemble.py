"""Make a Trace of the event log that an observed program left behind, whole or torn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xla_sim.observe import debuglog, frames
from xla_sim.trace import Execution, Fact, Fallback, Forward, Frame, Graph, Location, Optimizer, Step, Trace

Event = dict[str, Any]


def build(
    directory: Path,
    argv: Sequence[str],
    exit: int | None,
    ending: str,
    seconds: float,
    warmup_steps: int = 2,
) -> Trace:
    """The Trace of the run whose files are in ``directory``.

    ``exit``: the program's status as the operating system tells it. ``seconds``: wall time of the program.
    """
    events = list(_events(directory / "events.jsonl"))
    reader = _Reader(events)
    timeline = reader.timeline() + reader.unfinished(directory / "torch_xla.log")
    metrics = directory / "metrics.txt"
    stated = [event["status"] for event in events if event["e"] == "exit"]
    stack = {key: str(v) for event in events if event["e"] == "stack" for key, v in event.items() if key != "e"}
    return Trace(
        directory=directory,
        argv=tuple(argv),
        exit=stated[-1] if stated and exit is not None and exit >= 0 else exit,
        ending=ending,
        stack=stack,
        seconds=round(seconds, 3),
        timeline=tuple(timeline),
        graphs=reader.graphs(timeline),
        fallbacks=reader.fallbacks(),
        optimizers=reader.optimizers(),
        facts=reader.facts(),
        unknown=_unknown(stack, events),
        metrics=metrics.read_text(encoding="utf-8", errors="replace") if metrics.exists() else "",
        warmup_steps=warmup_steps,
        parameters=reader.parameters(),
        sources=tuple(file for event in events if event["e"] == "sources" for file in event["files"]),
    )


def _events(path: Path) -> Iterator[Event]:
    if not path.exists():
        return
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:  # torn by whatever ended the program
                continue


def locate(raw: Sequence[Sequence[Any]]) -> Location:
    """The user's line in a stack, and the stack. Files below the working directory are named relative to it."""
    stack = frames.without_repeats([(str(file), int(line), str(function)) for file, line, function in raw])
    chain = tuple(Frame(relative(file), line, function) for file, line, function in stack)
    user = frames.user_frame(stack)
    if user is None:
        return Location(frames=chain)
    return Location(relative(user[0]), user[1], user[2], chain)


def relative(file: str) -> str:
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative


class _Reader:
    """The events, taken apart by kind."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.locations: dict[int, Location] = {
            event["id"]: locate(event["frames"]) for event in events if event["e"] == "frames"
        }
        found = (self.at(e["at"]) for e in events if e["e"] == "fact" and e["name"] == "batch-read")
        self.batch_reads = {(where.file, where.line) for where in found if where.line}

    def at(self, number: int | None) -> Location:
        return self.locations.get(-1 if number is None else number, Location())

    def _of_batch(self, number: int) -> bool:
        """Whether that line reads what is computed from the step's own batch (see `observe.reads`)."""
        where = self.at(number)
        return (where.file, where.line) in self.batch_reads

    def timeline(self) -> list[Step]:
        steps: list[Step] = []
        index = 1
        repeats = [int(event["n"]) for event in self.events if event["e"] == "repeat"]
        stored = [event for event in self.events if event["e"] == "step"]
        for event, count in zip(stored, repeats + [1] * (len(stored) - len(repeats))):
            steps.append(self._step(event, index, count))
            index += count
        return steps

    def _step(self, event: Event, index: int, repeats: int) -> Step:
        return Step(
            index=index,
            marked=event["mark"] is not None,
            location=self.at(event["mark"]),
            end=event["t"],
            executions=_executions(
                (
                    run[0],
                    run[1],
                    self.at(run[2]),
                    bool(run[3]),
                    number < event.get("early", 0) and not self._of_batch(run[2]),
                )
                for number, run in enumerate(event["runs"])
            ),
            forwards=tuple(
                Forward(module, training, grad, tuple(map(tuple, shapes)), count, self.at(where))
                for module, training, grad, shapes, count, where in event["calls"]
            ),
            backwards=event["bwd"],
            optimizers=tuple(event["opt"]),
            to_device=event["sent"],
            to_host=event["got"],
            fallbacks=event["fb"],
            repeats=repeats,
        )

    def unfinished(self, log: Path) -> list[Step]:
        """What torch_xla recorded after the last event: the step that a killed program was in."""
        if any(event["e"] in ("exit", "runtime") for event in self.events) or not log.exists():
            return []
        known = sum(len(event["runs"]) for event in self.events if event["e"] == "step")
        records = debuglog.parse(log.read_text(encoding="utf-8", errors="replace"))[known:]
        if not records:
            return []
        index = sum(int(event["n"]) for event in self.events if event["e"] == "repeat") + 1
        runs = _executions((r.hash, r.cause, locate(r.frames), r.compiled, False) for r in records)
        return [Step(index=index, marked=False, location=Location(), end=0.0, executions=runs)]

    def graphs(self, timeline: Sequence[Step]) -> tuple[Graph, ...]:
        sizes = {event["hash"]: event for event in self.events if event["e"] == "graph"}
        kept = {event["hash"]: event["path"] for event in self.events if event["e"] == "hlo"}
        counted, recorded = compilations(self.events)
        seconds = counted if len(counted) == recorded else []  # else nobody knows which belongs to which
        seen: dict[str, list[Any]] = {}  # hash: first step, compilations, executions, first execution, seconds
        for step in timeline:
            for execution in step.executions:
                entry = seen.setdefault(execution.graph, [step.index, 0, 0, execution, 0.0])
                entry[2] += step.repeats
                if execution.compiled:
                    entry[1] += 1
                    entry[4] = seconds.pop(0) if seconds else 0.0
        return tuple(
            Graph(
                hash, first, compiles, executions, execution.cause, execution.location,
                sizes.get(hash, {}).get("inputs", 0), sizes.get(hash, {}).get("outputs", 0), took, kept.get(hash, ""),
            )
            for hash, (first, compiles, executions, execution, took) in seen.items()
        )  # fmt: skip

    def fallbacks(self) -> tuple[Fallback, ...]:
        """By op and line; calls whose line was not watched are counted on the op's most frequent line."""
        totals: dict[str, int] = {}
        for event in self.events:
            if event["e"] == "step":
                for op, count in event["fb"].items():
                    totals[op] = totals.get(op, 0) + count
        found: dict[tuple[str, int], int] = {}
        for event in self.events:
            if event["e"] == "fallback":
                found[event["op"], event["at"]] = found.get((event["op"], event["at"]), 0) + event["n"]
        result: list[Fallback] = []
        for op, total in totals.items():
            lines = sorted(((n, at) for (name, at), n in found.items() if name == op), reverse=True)
            if not lines:
                result.append(Fallback(op, total, Location()))
            share = sum(n for n, _ in lines)
            result += [Fallback(op, round(total * n / share), self.at(at)) for n, at in lines]
        return tuple(result)

    def optimizers(self) -> tuple[Optimizer, ...]:
        latest = {event["id"]: event for event in self.events if event["e"] == "optimizer"}
        return tuple(
            Optimizer(
                id=event["id"],
                name=event["name"],
                created=self.at(event["created"]),
                stepped=self.at(event["stepped"]),
                steps=event["steps"],
                parameters=event["parameters"],
                device=event["device"],
                without_grad=tuple((name, tuple(shape), bool(grad)) for name, shape, grad in event["without"]),
                on_host=event["on_host"],
                replaced=event["replaced"],
                orphans=tuple(event["orphans"]),
                uncleared=event["uncleared"],
                uncleared_of=event["uncleared_of"],
                accumulated=event["accumulated"],
            )
            for event in latest.values()
        )

    def parameters(self) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        named = [event["named"] for event in self.events if event["e"] == "parameters"]
        return tuple((name, tuple(shape), dtype) for name, shape, dtype in (named[-1] if named else ()))

    def facts(self) -> tuple[Fact, ...]:
        """The last of each kind at each line: later ones carry the larger counts."""
        latest: dict[tuple[str, Any], Fact] = {}
        for event in self.events:
            if event["e"] == "fact":
                fact = Fact(event["name"], event["step"], self.at(event["at"]), event["values"])
                latest[fact.name, (event["at"], str(event["values"].get("names", "")))] = fact
            elif event["e"] == "bug":
                latest["bug", event["traceback"]] = Fact("bug", 0, Location(), {"traceback": event["traceback"]})
        return tuple(latest.values())


def _executions(runs: Any) -> tuple[Execution, ...]:
    """A compilation and the execution that follows it are one Execution."""
    result: list[Execution] = []
    compiled: dict[str, bool] = {}
    for hash, cause, location, compilation, early in runs:
        if compilation:
            compiled[hash] = True
        else:
            result.append(Execution(hash, cause, location, compiled.pop(hash, False), early))
    return tuple(result)


def compilations(events: Sequence[Event]) -> tuple[list[float], int]:
    """Seconds of every compilation by torch_xla's counters, and how many its record of causes has."""
    counted = [s for event in events if event["e"] == "runtime" for s in event["compile_seconds"]]
    return counted, sum(run[3] for event in events if event["e"] == "step" for run in event["runs"])


def _unknown(stack: dict[str, str], events: Sequence[Event]) -> tuple[str, ...]:
    unknown = []
    if "torch" in stack and "torch_xla" not in stack:
        unknown.append("torch_xla was never imported, so nothing is known of XLA")
    for event in events:
        if event["e"] == "fact" and event["name"] == "compared" and event["values"].get("reason"):
            unknown.append(f"host-mismatch was not looked for: {event['values']['reason']}")
    for event in events:
        if event["e"] == "unseen":
            unknown.append(
                f"steps of {event['what']} were not watched; of them only compilations and executions are known"
            )
    counted, recorded = compilations(events)
    if len(counted) > recorded:
        more = len(counted) - recorded
        unknown.append(
            f"what caused {more} of {len(counted)} compilations (torch_xla records none that a fallback needs)"
        )
    if not any(event["e"] == "runtime" for event in events):
        unknown.append("the program did not end by itself: compile times and torch_xla's metrics are missing")
    return tuple(unknown)
