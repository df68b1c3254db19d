"""The simulator from Python: run a callable or a script, get the judged Trace."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from xla_sim.config import Config, load_config
from xla_sim.notebook import carry_call
from xla_sim.observe.supervise import CannotRun, importable, supervise_call, supervise_script
from xla_sim.rules.judging import judge
from xla_sim.trace import Trace


class ProgramFailed(AssertionError):
    """The observed program raised, was killed or ran out of time; ``trace`` is what was seen until then."""

    def __init__(self, message: str, trace: Trace) -> None:
        super().__init__(message)
        self.trace = trace


def run(
    function: Callable[..., Any],
    *args: Any,
    out: Path | None = None,
    timeout: float | None = None,
    config: Config | None = None,
    check: bool = True,
) -> Trace:
    """Run ``function(*args)`` under observation, in a process of its own.

    A function at the top of a module is imported there. Any other (a notebook's, a local one, a lambda) is copied with
    the variables that it uses, which takes cloudpickle. ``args`` and what it returns must be picklable.

    Args:
        out: where the files of the run go; by default a temporary folder.
        timeout: seconds.
        check: raise when the function fails.

    Returns:
        The trace with its findings; ``trace.result`` is what the function returned.

    Raises:
        ProgramFailed: the function raised or was killed, and ``check`` is on.
        CannotRun: torch_xla isn't here, or the function can't be handed to another process.
    """
    config = config or load_config()
    directory = out or Path(tempfile.mkdtemp(prefix="xla_sim-"))
    carried = None if importable(function) else carry_call(function, args)
    trace = judge(supervise_call(function, args, directory, timeout, config.warmup_steps, carried), config.names())
    result = directory / "result.pkl"
    if trace.exit == 0 and result.exists():
        trace = replace(trace, result=pickle.loads(result.read_bytes()))
    return _checked(trace, getattr(function, "__name__", "the function"), check)


def run_script(
    *arguments: str | os.PathLike[str],
    out: Path | None = None,
    timeout: float | None = None,
    config: Config | None = None,
    check: bool = True,
) -> Trace:
    """Run ``SCRIPT [ARGS…]`` or ``-m MODULE [ARGS…]`` under observation; otherwise like `run`."""
    config = config or load_config()
    directory = out or Path(tempfile.mkdtemp(prefix="xla_sim-"))
    trace = supervise_script([os.fspath(a) for a in arguments], directory, timeout, config.warmup_steps, warm=True)
    return _checked(judge(trace, config.names()), str(arguments[0]), check)


def _checked(trace: Trace, name: str, check: bool) -> Trace:
    if check and trace.exit != 0:
        log = trace.directory / "error.txt"
        told = log.read_text(encoding="utf-8") if log.exists() else ""
        raise ProgramFailed(f"{name} {trace.ending or f'ended with exit status {trace.exit}'}\n{told}".rstrip(), trace)
    return trace


__all__ = ["CannotRun", "ProgramFailed", "run", "run_script"]
