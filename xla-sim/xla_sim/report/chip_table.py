"""The rows of the chip table and of the fit tables, in words, shared by terminal, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xla_sim.report.content.words import clean, count, duration, memory, percent, size

VERDICTS = {
    "ok": "accepted",
    "oom": "too big",
    "rejected": "refused",
    "crashed": "compiler died",
    "timeout": "timed out",
}
FIT_VERDICTS = {**VERDICTS, "ok": "fits"}
NOTHING = "–"  # in a table: the compiler didn't get so far
# parts of HBM in the order in which they are drawn, and how each is called
PARTS = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "activations": "activations",
    "weights": "gathered weights",
    "batch": "batch",
    "arguments": "arguments",
    "outputs": "outputs that reuse no argument",
    "temporaries": "temporaries",
    "code": "code",
    "other": "other",
}


@dataclass(frozen=True)
class Bar:
    """HBM of one chip as shares of the bar's length; the bar is as long as the larger of capacity and need."""

    parts: tuple[tuple[str, int, float], ...]  # key of PARTS, bytes, share of the bar
    capacity: float  # where on the bar the chip ends, 0 to 1
    text: str  # "3.2 of 15.75 GiB"


@dataclass(frozen=True)
class Row:
    """One compilation."""

    what: str  # short hash of the graph, or the topology
    chip: str
    status: str
    verdict: str
    hbm: Bar | None
    padding: str
    bound: str
    busy: str
    message: str


def short(hash: str) -> str:
    return clean(hash)[:8]


def rows(document: Mapping[str, Any]) -> list[Row]:
    """The chip table: one row a graph and chip."""
    results = (document.get("compile") or {}).get("results", ())
    return [
        Row(
            what=short(result["graph"]),
            chip=chip(result),
            status=result["status"],
            verdict=VERDICTS[result["status"]],
            hbm=bar(result.get("hbm")),
            padding=padding(result.get("padding")),
            bound=bound(result.get("bound")),
            busy=busy(result.get("bound")),
            message=clean(result.get("message") or "", keep="\n"),
        )
        for result in results
    ]


def chip(result: Mapping[str, Any]) -> str:
    """``v5e``, with the topology when the graph was compiled for more than one chip."""
    many = (result.get("chips") or 1) > 1
    return clean(f"{result['topology']} ({result['chips']} chips)" if many else result["chip"])


def bar(hbm: Mapping[str, Any] | None) -> Bar | None:
    """The bar of one chip's HBM; None when the compiler told no total."""
    if not hbm or hbm.get("total") is None:
        return None
    total, capacity = hbm["total"], hbm.get("capacity")
    length = max(total, capacity or 0, 1)
    used: dict[str, int] = {key: hbm.get(key) or 0 for key in PARTS}
    if hbm.get("aliased"):
        used["outputs"] = max(0, used["outputs"] - hbm["aliased"])
    told = sum(used.values())
    if told < total:
        used["other"] += total - told
    scale = 1.0 if told <= total else total / told  # parts that share memory can't be longer than the whole
    parts = tuple((key, value, value * scale / length) for key, value in used.items() if value)
    return Bar(parts, (capacity or length) / length, _of(total, capacity))


def _of(total: int, capacity: int | None) -> str:
    if capacity is None:
        return memory(total)
    mine, theirs = memory(total), memory(capacity)
    return f"{mine.split()[0]} of {theirs}" if mine.split()[1] == theirs.split()[1] else f"{mine} of {theirs}"


def padding(told: Mapping[str, Any] | None) -> str:
    """``1.06×``: bytes in tiles over bytes of the elements."""
    if not told or not told.get("logical") or told.get("padded") is None:
        return NOTHING
    return f"{told['padded'] / told['logical']:.2f}×"


def bound(told: Mapping[str, Any] | None) -> str:
    """``1.3 ms (memory)``: the lower bound on a step's time, and what sets it."""
    if not told or told.get("seconds") is None:
        return NOTHING
    compute, moving = told.get("compute_seconds"), told.get("memory_seconds")
    text = duration(told["seconds"])
    if compute is None or moving is None:
        return text
    return f"{text} ({'compute' if compute >= moving else 'memory'})"


def busy(told: Mapping[str, Any] | None) -> str:
    """``12 %``: the share of time that the matrix unit can be busy at best."""
    share = (told or {}).get("mxu_share")
    return NOTHING if share is None else percent(share)


def collectives(result: Mapping[str, Any]) -> list[str]:
    """One sentence a kind, the largest first."""
    told = sorted(result.get("collectives") or (), key=lambda one: -one["bytes"])
    lines = []
    for one in told:
        largest = one.get("largest") or {}
        line = f"{count(one['count'], clean(one['kind']))}, {size(one['bytes'])}"
        where = largest.get("location") or {}
        if largest.get("bytes"):
            at = f" ({clean(where['file'])}:{where['line']})" if where.get("file") and where.get("line") else ""
            line += f"; the largest {size(largest['bytes'])}{at}"
        lines.append(line)
    return lines


def fit_sentence(fit: Mapping[str, Any]) -> str:
    """``7B parameters, batch 64, fsdp=64 on v5e:8x8 (64 chips): fits, 9.1 of 15.75 GiB a chip``."""
    parts = []
    if fit.get("parameters"):
        parts.append(f"{_scaled_count(fit['parameters'])} parameters")
    if fit.get("batch_size") is not None:
        parts.append(f"batch {fit['batch_size']:,}")
    mesh = ",".join(f"{clean(axis)}={size}" for axis, size in (fit.get("mesh") or {}).items())
    where = f"{mesh} on {clean(fit.get('topology') or '')}".strip()
    many = f" ({count(fit['chips'], 'chip')})" if fit.get("chips") else ""
    if fit.get("topology"):
        parts.append(f"{where}{many}")
    sentence = ", ".join(parts)
    if fit.get("status"):
        sentence += f": {FIT_VERDICTS[fit['status']]}"
        told = bar(fit.get("hbm"))
        sentence += f", {told.text} a chip" if told else ""
    return sentence or clean(fit["target"])


def _scaled_count(number: int) -> str:
    for factor, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return str(number)


def fit_parts(fit: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What a chip's HBM holds: label, size, and what arithmetic on shapes and shardings says, where it says anything."""
    told, expected = bar(fit.get("hbm")), fit.get("expected") or {}
    sizes = {key: memory(expected[key]) if expected.get(key) else "" for key in PARTS}
    return [(PARTS[key], memory(bytes), sizes[key]) for key, bytes, _ in told.parts] if told else []


@dataclass(frozen=True)
class SearchRow:
    """One compilation of ``fit --search``."""

    topology: str
    batch: str
    status: str
    verdict: str
    hbm: Bar | None
    bound: str
    busy: str


def search_rows(fit: Mapping[str, Any]) -> list[SearchRow]:
    """The table of ``fit --search``."""
    return [
        SearchRow(
            topology=clean(one["topology"]),
            batch="unknown" if one.get("batch_size") is None else f"{one['batch_size']:,}",
            status=one["status"],
            verdict=FIT_VERDICTS[one["status"]],
            hbm=bar(one.get("hbm")),
            bound=bound(one.get("bound")),
            busy=busy(one.get("bound")),
        )
        for one in (fit.get("search") or {}).get("rows", ())
    ]


@dataclass(frozen=True)
class SearchBar:
    """One bar of the search's picture: need and capacity as shares of the longest of the picture."""

    label: str
    text: str
    need: float
    capacity: float
    over: bool


def search_picture(fit: Mapping[str, Any]) -> list[SearchBar]:
    """HBM a chip of every topology and batch that was tried, on one scale."""
    told = [one for one in (fit.get("search") or {}).get("rows", ()) if (one.get("hbm") or {}).get("total") is not None]
    longest = max((max(one["hbm"]["total"], one["hbm"].get("capacity") or 0) for one in told), default=0)
    bars = []
    for one in told if longest else ():
        total, capacity = one["hbm"]["total"], one["hbm"].get("capacity")
        batch = "" if one.get("batch_size") is None else f", batch {one['batch_size']:,}"
        over = capacity is not None and total > capacity
        text = f"{_of(total, capacity)}, {FIT_VERDICTS[one['status']]}"
        bars.append(
            SearchBar(f"{clean(one['topology'])}{batch}", text, total / longest, (capacity or longest) / longest, over)
        )
    return bars
