"""The picture of the steps: one strip a kind of event, columns from the first step to the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sim.report.content.words import clean, count, size

MOST_COLUMNS = 120  # more would be thinner than a pixel column of a phone
FEWEST_COLUMNS = 20  # a short run isn't stretched into slabs
MOST_ROWS = 200  # of the table below the picture
HEIGHT = 36  # of a strip, in units of its viewBox
WIDTH = 1000
LOWEST = 5  # height of the lowest bar that is shown at all


@dataclass(frozen=True)
class Rect:
    """One bar, in units of the viewBox."""

    x: float
    y: float
    width: float
    height: float
    title: str
    unknown: bool = False  # not measured


@dataclass(frozen=True)
class Strip:
    """One kind of event over all the steps."""

    key: str  # CSS class
    label: str
    summary: str  # the strip in words
    rects: tuple[Rect, ...]


@dataclass(frozen=True)
class Picture:
    """The timeline, ready to be drawn: WIDTH by HEIGHT a strip."""

    strips: tuple[Strip, ...]
    first: int
    last: int
    per_column: int  # steps that one column stands for
    share: float  # of the width that the columns take


@dataclass(frozen=True)
class _Kind:
    key: str
    label: str
    value: Callable[[Mapping[str, Any]], float | None]  # of one entry, per step
    words: Callable[[float], str]
    always: bool  # the strip is drawn even when nothing happened
    adds_up: bool


def _per_step(key: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda entry: float(entry[key]) / (entry["last"] - entry["first"] + 1)


def _moved(key: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda entry: None if entry[key] is None else float(entry[key])


def _times(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"


KINDS = (
    _Kind("compiled", "compilations", _per_step("compiled"), _times, True, True),
    _Kind("executed", "executions", _per_step("executed"), _times, True, True),
    _Kind("cuts", "cuts (a value was read)", _per_step("cuts"), _times, True, True),
    _Kind("fallbacks", "ops on the host", lambda entry: float(sum(entry["fallbacks"].values())), _times, False, True),
    _Kind("there", "moved to the device", _moved("to_device"), size, True, False),
    _Kind("back", "moved back to the host", _moved("to_host"), size, True, False),
)


def picture(entries: Sequence[Mapping[str, Any]]) -> Picture | None:
    """The timeline's picture; None when there was no step."""
    if not entries:
        return None
    first, last = entries[0]["first"], max(entry["last"] for entry in entries)
    per_column = -(-(last - first + 1) // MOST_COLUMNS)
    columns = _columns(entries, first, last, per_column)
    strips = [_strip(kind, entries, columns) for kind in KINDS]
    kept = tuple(strip for kind, strip in zip(KINDS, strips) if kind.always or strip.rects)
    return Picture(kept, first, last, per_column, len(columns) / max(len(columns), FEWEST_COLUMNS))


_Column = tuple[int, int, list[tuple[Mapping[str, Any], int]]]  # first step, last step, entries with steps in it


def _columns(entries: Sequence[Mapping[str, Any]], first: int, last: int, per_column: int) -> list[_Column]:
    columns: list[_Column] = []
    start = 0
    for begin in range(first, last + 1, per_column):
        end = min(begin + per_column - 1, last)
        inside = []
        while start < len(entries) and entries[start]["last"] < begin:
            start += 1
        for entry in entries[start:]:
            if entry["first"] > end:
                break
            inside.append((entry, min(end, entry["last"]) - max(begin, entry["first"]) + 1))
        columns.append((begin, end, inside))
    return columns


def _strip(kind: _Kind, entries: Sequence[Mapping[str, Any]], columns: Sequence[_Column]) -> Strip:
    means = [_mean(kind, column) for column in columns]
    highest = max((mean for mean in means if mean), default=0.0)
    step = WIDTH / max(len(columns), FEWEST_COLUMNS)
    rects = []
    for number, (mean, (begin, end, inside)) in enumerate(zip(means, columns)):
        gap = step * 0.12
        x, width = round(number * step + gap, 1), round(step - 2 * gap, 1)
        steps = f"step {begin}" if begin == end else f"steps {begin} to {end}"
        if mean is None and inside:
            rects.append(Rect(x, HEIGHT - 2, width, 2, f"{steps}: not measured", True))
        elif mean:
            height = round(max(LOWEST, HEIGHT * mean / highest), 1)
            rects.append(Rect(x, round(HEIGHT - height, 1), width, height, _title(kind, steps, mean, begin != end)))
    return Strip(kind.key, kind.label, _summary(kind, entries), tuple(rects))


def _mean(kind: _Kind, column: _Column) -> float | None:
    values = [(kind.value(entry), steps) for entry, steps in column[2]]
    known = [(value, steps) for value, steps in values if value is not None]
    if not known:
        return None
    return sum(value * steps for value, steps in known) / sum(steps for _, steps in known)


def _title(kind: _Kind, steps: str, mean: float, several: bool) -> str:
    return f"{steps}: {kind.words(mean)}{' per step' if several else ''}"


def _summary(kind: _Kind, entries: Sequence[Mapping[str, Any]]) -> str:
    values = [(kind.value(entry), entry["last"] - entry["first"] + 1) for entry in entries]
    known = [(value, steps) for value, steps in values if value is not None]
    if not known:
        return "not measured"
    measured, steps = (sum(number for _, number in pairs) for pairs in (known, values))
    partly = f", measured at {measured:,} of {steps:,} steps" if measured < steps else ""
    most = max(value for value, _ in known)
    if not most:
        return f"none{partly}"
    total = f"{round(sum(value * number for value, number in known)):,}, " if kind.adds_up else ""
    return f"{total}at most {kind.words(most)} in a step{partly}"


def rows(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The same as a table: one row for steps in a row that did the same."""
    return [_row(entry) for entry in entries[:MOST_ROWS]]


def _row(entry: Mapping[str, Any]) -> dict[str, str]:
    first, last = entry["first"], entry["last"]
    steps = last - first + 1
    fallbacks = [f"{clean(op)} {_times(calls)}" for op, calls in entry["fallbacks"].items()]
    return {
        "steps": str(first) if first == last else f"{first} to {last}",
        "mark": "step mark" if entry["marked"] else "no step mark",
        "compiled": _times(entry["compiled"] / steps),
        "executed": _times(entry["executed"] / steps),
        "cuts": _times(entry["cuts"] / steps),
        "there": size(entry["to_device"]),
        "back": size(entry["to_host"]),
        "fallbacks": ", ".join(fallbacks) or "none",
    }


def left_out(entries: Sequence[Mapping[str, Any]]) -> str:
    """What the table doesn't show, in words; empty when it shows everything."""
    left = len(entries) - MOST_ROWS
    return f"{count(left, 'more row')} in report.json" if left > 0 else ""
