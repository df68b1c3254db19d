"""What the commands share: exit codes, and types of arguments that refuse what they can't read with a sentence."""

from __future__ import annotations

import argparse
import re

OK, FINDINGS, WRONG, FAILED, CANNOT = range(5)  # FAILED: the program itself, or the user stopped it
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def whole(text: str) -> int:
    """``20``."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def positive(text: str) -> int:
    """``20``, and more than 0."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """``1.5``: more than 0, and finite."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def size(text: str) -> int:
    """``4GiB``, ``500m`` or a number, in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|m|g|kib|mib|gib)?b?", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it like 8GiB or 8000000000")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def words(text: str) -> tuple[str, ...]:
    """``v5e,v6e``."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise argparse.ArgumentTypeError("it is empty; name one, as v5e")
    return found
