"""What the commands share: exit codes, and types of arguments that refuse what they can't read with a sentence."""

from __future__ import annotations

import argparse
import os
import re
import sys

from xla_sim import hints, ownership
from xla_sim.compiler.pool import TpuUnavailable
from xla_sim.environment.compiler_python import CannotMake, compiler_python
from xla_sim.environment.torch_python import TorchPython, find_torch_python

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


def add_python(parser: argparse.ArgumentParser) -> None:
    """``--python``, of commands that run the user's code."""
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the Python that has torch_xla, or its environment's folder (default: $XLA_SIM_PYTHON, this one, the active "
        "environment, .venv, venv, .nox/env, or what is on the path)",
    )


def add_no_install(parser: argparse.ArgumentParser) -> None:
    """``--no-install``, of commands that need the TPU compiler."""
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="don't make the TPU compiler's environment (once, about 1 GB) where there is none; also XLA_SIM_NO_INSTALL=1",
    )


def torch_python(args: argparse.Namespace) -> TorchPython:
    """The Python that runs the user's code, told in a line when it isn't this one.

    Raises:
        NoTorchXla: there is none.
    """
    found = find_torch_python(args.python, hints.simulation_made_by())
    if not found.is_this:
        ownership.add_libraries(found.libraries)
        print(f"xla_sim {args.command}: the program runs in {found}", file=sys.stderr)
    return found


def use_compiler(args: argparse.Namespace) -> None:
    """Have the TPU compiler's Python in $XLA_SIM_TPU_PYTHON, and make it where there is none.

    Raises:
        TpuUnavailable: it can't be made, or mustn't.
    """

    def tell(line: str) -> None:
        print(f"xla_sim {args.command}: {line}", file=sys.stderr, flush=True)

    try:
        found = compiler_python(not args.no_install, tell)
    except CannotMake as error:
        raise TpuUnavailable(str(error)) from error
    if found is not None:
        os.environ["XLA_SIM_TPU_PYTHON"] = found
