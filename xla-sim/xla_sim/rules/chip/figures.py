"""The compiler's figures for what the run found: rows computed for an unaligned batch, and the price of a wide type.

`rules.run.batch` and `rules.run.numerics` hand their ``check_compiled`` to these; each finding of the run comes back with the figure in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xla_sim.compiler.results import Buffer, CompileResult
from xla_sim.rules.base import Rule
from xla_sim.trace import Finding, Frame, Location

GIB = 2**30
_NAMES = {"float64": "float32", "complex128": "complex64", "int64": "int32"}


def rows_computed(rule: Rule, results: Sequence[CompileResult], run: Any) -> Iterable[Finding]:
    """`unaligned-batch` with the rows that the compiled layout of the step's input gives the batch, per chip."""
    for finding in run.of(rule.name):
        batch = finding["evidence"].get("batch")
        rows: dict[str, int] = {}
        shapes: dict[str, str] = {}
        for result in results:
            argument = _batch_argument(result, batch)
            if argument is not None and not result.narrowed:
                rows.setdefault(result.topology, argument.padded_dims[0])
                shapes.setdefault(result.topology, argument.shape)
        if rows:
            told = ", ".join(f"{count} rows on {name.split(':')[0]}" for name, count in rows.items())
            yield _again(
                rule,
                finding,
                f"the compiler lays the batch of {batch} out as {told}",
                compiled_rows=rows,
                layouts=shapes,
            )


def _batch_argument(result: CompileResult, batch: Any) -> Buffer | None:
    """The largest argument whose leading dimension is the batch; nothing of the step's own state has it unless by chance."""
    found = [one for one in result.arguments if len(one.dims) > 1 and one.dims[0] == batch]
    return max(found, key=lambda one: one.logical, default=None)


def price_of_width(rule: Rule, results: Sequence[CompileResult], run: Any) -> Iterable[Finding]:
    """`wide-dtype` with what the graph costs on each chip as it is, against the same graph with narrow types."""
    for finding in run.of(rule.name):
        dtype = finding["evidence"].get("dtype", "float64")
        pairs = [
            (wide, narrow) for wide in results for narrow in results if _same(wide, narrow) and dtype in narrow.wide
        ]
        if not pairs:
            continue
        costs = [_cost(wide, narrow) for wide, narrow in pairs]
        _, evidence, words = max(costs, key=lambda cost: cost[0])
        others = sorted({name for _, narrow in pairs for name in narrow.wide if name != dtype})
        too = f" (with its {' and '.join(others)} narrowed too)" if others else ""
        yield _again(
            rule,
            finding,
            f"on {evidence['chip']} the graph as it is, against the same in {_NAMES[dtype]}{too}: {words}",
            cost=[cost[1] for cost in costs],
        )


def _same(wide: CompileResult, narrow: CompileResult) -> bool:
    return narrow.narrowed and not wide.narrowed and (wide.graph, wide.topology) == (narrow.graph, narrow.topology)


def _cost(wide: CompileResult, narrow: CompileResult) -> tuple[float, dict[str, Any], str]:
    """How to rank it, as evidence, and in words."""
    evidence: dict[str, Any] = {
        "graph": wide.graph,
        "chip": wide.chip,
        "wide": _figures(wide),
        "narrow": _figures(narrow),
    }
    if wide.status != "ok" or narrow.status != "ok":
        verdicts = f"{wide.status} against {narrow.status}"
        return (1e9 if narrow.status == "ok" else -1.0), evidence, f"the compiler's verdict is {verdicts}"
    ratios: list[tuple[str, float]] = []
    for label, key in (("FLOP", "flops"), ("bytes accessed", "bytes_accessed"), ("HBM", "data")):
        mine, theirs = evidence["wide"][key], evidence["narrow"][key]
        if mine and theirs:
            ratios.append((label, mine / theirs))
    words = ", ".join(f"{ratio:.1f} times the {label}" for label, ratio in ratios) or "no figure to compare"
    return max((ratio for _, ratio in ratios), default=0.0), evidence, words


def _figures(result: CompileResult) -> dict[str, Any]:
    hbm = result.hbm
    return {
        "status": result.status,
        "flops": result.flops,
        "bytes_accessed": result.bytes_accessed,
        "hbm": hbm.total if hbm else None,
        "data": hbm.total - hbm.code if hbm else None,
        "bound_seconds": result.bound.seconds if result.bound else None,
    }


def _again(rule: Rule, finding: Mapping[str, Any], addition: str, **evidence: Any) -> Finding:
    """The run's finding, with the compiler's figure in its message and evidence."""
    where = finding.get("location") or {}
    frames = tuple(Frame(frame["file"], frame["line"], frame["function"]) for frame in where.get("frames", ()))
    location = Location(where.get("file", ""), where.get("line", 0), where.get("function", ""), frames)
    return rule.finding(
        f"{finding['message']}; {addition}",
        finding["fix"],
        location,
        finding["severity"],
        **{**finding["evidence"], **evidence},
    )
