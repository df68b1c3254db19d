"""What one run promised and another one did: a laptop's report against the TPU's, line by line.

The first document is the promise (``run`` on the laptop, best with ``compile``'s verdicts beside it), the second what was
seen later (``run`` on ``PJRT_DEVICE=TPU``, or again on the laptop).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xla_sim.report.content import summary
from xla_sim.report.content.document import all_findings
from xla_sim.report.content.words import clean, duration, memory, place, size
from xla_sim.report.terminal import NO_WRAP

Document = Mapping[str, Any]
STYLES = {"kept": "green", "broken": "red", "unknown": "dim", "noted": "yellow"}


@dataclass(frozen=True)
class Line:
    """One thing that both runs say something about."""

    what: str
    promised: str
    seen: str
    verdict: str  # "kept", "broken", "noted" (neither good nor bad) or "unknown"


def compare(first: Document, second: Document) -> list[Line]:
    """The second run against the first; both must hold a run."""
    lines = [
        _number("compilations after warm-up", first["compiles_after_warmup"], second["compiles_after_warmup"]),
        _number("compilations", first["compiles"], second["compiles"]),
        _number(
            "executions per step",
            summary.per_step(first, "executed"),
            summary.per_step(second, "executed"),
            least=False,
        ),
        *(
            _moved(what, summary.per_step(first, key), summary.per_step(second, key))
            for what, key in (("moved to the device per step", "to_device"), ("moved back per step", "to_host"))
        ),
        *_bounds(first, second),
        *_memory(first, second),
    ]
    return [*lines, *_findings(first, second)]


def _number(what: str, promised: float | None, seen: float | None, least: bool = True) -> Line:
    """More than promised breaks the promise; with `least`, fewer keeps it."""
    if promised is None or seen is None:
        return Line(what, _plain(promised), _plain(seen), "unknown")
    kept = seen <= promised if least else seen == promised
    return Line(what, _plain(promised), _plain(seen), "kept" if kept else "broken")


def _plain(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


def _moved(what: str, promised: float | None, seen: float | None) -> Line:
    if promised is None or seen is None:
        return Line(what, size(promised), size(seen), "unknown")
    return Line(what, size(promised), size(seen), "kept" if seen <= 1.05 * promised else "noted")


def step_seconds(document: Document) -> float | None:
    """Seconds of a step after warm-up, on average; None when the timeline, which tells ends alone, can't say."""
    entries = [entry for entry in document["timeline"] if entry["marked"]]
    warm = [entry for entry in entries if entry["last"] <= document["warmup_steps"]]
    if len(entries) < 2:
        return None
    start = warm[-1] if warm else entries[0]
    steps = entries[-1]["last"] - start["last"]
    return float(entries[-1]["end"] - start["end"]) / steps if steps > 1 else None


def _bounds(first: Document, second: Document) -> list[Line]:
    """The time of a step against the lower bound of each chip that the first run was compiled for."""
    seen = step_seconds(second)
    if not (first.get("compile") or {}).get("results"):
        promised = step_seconds(first)
        verdict = "unknown" if promised is None or seen is None else "noted"
        return [Line("a step took", duration(promised), duration(seen), verdict)]
    on_tpu = (second.get("stack") or {}).get("device") == "TPU"
    lines = []
    for topology, bound in _step_bounds(first).items():
        verdict = "unknown" if bound is None or seen is None or not on_tpu else "kept" if seen >= bound else "broken"
        least = "unknown" if bound is None else f"at least {duration(bound)}"
        lines.append(Line(f"a step on {topology}", least, duration(seen) + ("" if on_tpu else ", no TPU"), verdict))
    return lines


def _step_bounds(document: Document) -> dict[str, float | None]:
    """By topology: the bounds of all graphs that the last step after warm-up executed; None where one is missing."""
    executions: list[Any] = next(
        (one["executions"] for one in reversed(document["timeline"]) if one["marked"] and one["executions"]), []
    )
    bounds: dict[str, dict[str, float]] = {}
    for result in document["compile"]["results"]:
        known = bounds.setdefault(clean(result["topology"]), {})
        if (result.get("bound") or {}).get("seconds") is not None:
            known[result["graph"]] = result["bound"]["seconds"]
    return {
        topology: sum(known[one["graph"]] * one["count"] for one in executions)
        if executions and all(one["graph"] in known for one in executions)
        else None
        for topology, known in bounds.items()
    }


def _memory(first: Document, second: Document) -> list[Line]:
    """The largest HBM of any graph by the compiler, against the peak that the device told."""
    results = (first.get("compile") or {}).get("results", ())
    needs = [result["hbm"]["total"] for result in results if (result.get("hbm") or {}).get("total") is not None]
    peaks = [fact["values"].get("peak") for fact in second.get("facts", ()) if fact["name"] == "memory"]
    peak = max((value for value in peaks if isinstance(value, (int, float))), default=None)
    if not needs and peak is None:
        return []
    need = max(needs, default=None)
    verdict = "unknown" if need is None or peak is None else "kept" if peak <= 1.05 * need else "broken"
    return [Line("HBM of a chip", memory(need), memory(peak), verdict)]


def _findings(first: Document, second: Document) -> list[Line]:
    known, seen = ({_name(finding): finding for finding in all_findings(one)} for one in (first, second))
    lines = []
    for name, finding in {**known, **seen}.items():
        promised, now = ("yes" if name in found else "no" for found in (known, seen))
        if promised != now:
            serious = now == "yes" and finding["severity"] != "info" and not finding["code"].startswith("TPU")
            lines.append(Line(name, promised, now, "broken" if serious else "noted"))
    same = len(known.keys() & seen.keys())
    return [Line("findings in both", str(same), str(same), "kept"), *lines] if known or seen else lines


def _name(finding: Mapping[str, Any]) -> str:
    return f"{clean(finding['code'])} {clean(finding['rule'])} at {place(finding['location'])}"


def broken(lines: Sequence[Line]) -> bool:
    return any(line.verdict == "broken" for line in lines)


def as_json(lines: Sequence[Line]) -> dict[str, Any]:
    return {"schema": 1, "kind": "compare", "kept": not broken(lines), "lines": [asdict(line) for line in lines]}


def render(lines: Sequence[Line], names: tuple[str, str], width: int | None = None, color: bool = False) -> str:
    """A table for a terminal of that width, or for a pipe."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=width or NO_WRAP, force_terminal=color, no_color=not color, highlight=False, emoji=False
    )
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("", *map(clean, names), ""):
        table.add_column(Text(heading, "dim"), overflow="fold")
    for line in lines:
        table.add_row(Text(line.what), Text(line.promised), Text(line.seen), Text(line.verdict, STYLES[line.verdict]))
    console.print(table)
    count = sum(line.verdict == "broken" for line in lines)
    verdict = f"{count} of {len(lines)} promises broken" if count else "every promise that could be told was kept"
    console.print()
    console.print(Text(verdict, "red" if count else "green"))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
