"""Numbers, places and awkward text in words that every renderer shares."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# control characters, lone surrogates, line separators, and invisible marks that reorder the text around them, so that
# what is shown isn't what is there
_HIDDEN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\u2028-\\u202e\\u2066-\\u2069\\u200e\\u200f\\u061c]")


def clean(text: Any, keep: str = "") -> str:
    """The text with what hides in it written out (``\\x1b``), except the characters of `keep`."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in keep else _written_out(found[0]), str(text))


def _written_out(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte of a file name that isn't UTF-8
        return f"\\x{code - 0xDC00:02x}"
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return named.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def spans(text: str) -> list[tuple[str, bool]]:
    """The text in pieces, and whether each stood between backticks; one that has no partner stays in the text."""
    pieces = re.split(r"`([^`\n]+)`", text)
    return [(piece, bool(number % 2)) for number, piece in enumerate(pieces) if piece]


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 graph``, ``2 graphs``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def times(number: int) -> str:
    """``once``, ``twice``, ``20 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def size(bytes: float | None) -> str:
    """Bytes in decimal units: ``16.4 kB``; for what is moved."""
    return _scaled(bytes, 1000, ("B", "kB", "MB", "GB", "TB"))


def memory(bytes: float | None) -> str:
    """Bytes in binary units: ``15.75 GiB``; for what has to fit in memory, as the TPU compiler counts it."""
    return _scaled(bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _scaled(value: float | None, base: int, units: Sequence[str]) -> str:
    if value is None:
        return "unknown"
    amount, unit = float(value), 0
    while abs(amount) >= base and unit < len(units) - 1:
        amount, unit = amount / base, unit + 1
    exact = 100 if base == 1024 else 10  # chips have 15.75 GiB, but nobody needs 16.38 kB
    return f"{amount:.0f} {units[0]}" if unit == 0 else f"{_short(amount, exact)} {units[unit]}"


def _short(amount: float, exact: int = 10) -> str:
    """Two digits after the point below `exact`, one below 100, trailing zeros left out."""
    digits = 2 if abs(amount) < exact else 1 if abs(amount) < 100 else 0
    text = f"{amount:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float | None) -> str:
    """``1.3 ms``, ``12 s``, ``2 min 5 s``."""
    if seconds is None:
        return "unknown"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{_short(seconds * factor)} {unit}"
    return "0 s" if seconds == 0 else f"{_short(seconds * 1e9)} ns"


def flop(number: float | None) -> str:
    """``1.3 TFLOP``."""
    return _scaled(number, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{_short(100 * share)} %"


def listed(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def ranges(numbers: Iterable[int], most: int = 5) -> str:
    """``1, 2, 4 to 8``, with the rest counted when there are more than `most` parts."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    parts: list[str] = []
    for first, last in spans:
        if last - first >= 2:
            parts.append(f"{first} to {last}")
        else:
            parts.extend(str(number) for number in range(first, last + 1))
    if len(parts) > most:
        return ", ".join(parts[:most]) + " and more"
    return listed(parts)


def place(location: Mapping[str, Any] | None) -> str:
    """``src/train.py:41``, ``src/train.py`` or ``-``."""
    file, line = clean((location or {}).get("file") or ""), (location or {}).get("line") or 0
    return f"{file}:{line}" if file and line else file or "-"


def typical(values: Sequence[tuple[float, int]]) -> float | None:
    """The median of values given with how often each occurred; None when there are none."""
    flat = [value for value, repeats in values for _ in range(min(repeats, 10_000))]
    return statistics.median_low(flat) if flat else None
