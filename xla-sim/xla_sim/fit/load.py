"""Find the user's function, trace the step it builds, and keep the trace in files that the TPU environment can read."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xla_sim import hints
from xla_sim.fit.plan import FitError, Plan
from xla_sim.fit.sharding import ShardingError
from xla_sim.fit.wording import explain
from xla_sim.rules.selection import ConfigError

_HERE = os.path.dirname(__file__) + os.sep


class UserError(Exception):
    """The user's code raised; the message is its traceback, and a sentence where the cause is one that many meet."""


class Cannot(Exception):
    """This environment can't do it; the message says what it needs."""


def load(target: str) -> Callable[..., Any]:
    """The user's function; raises ConfigError with what is missing."""
    module, colon, name = target.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ConfigError(f"{target!r} is not package.module:function")
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    missing = [package for package in ("torch", "torch_xla") if importlib.util.find_spec(package) is None]
    if missing:
        raise Cannot(
            f"tracing needs {' and '.join(missing)}, not installed in {sys.executable}: {hints.simulation_made_by()}"
        )
    from xla_sim.fit.tracing import needs

    lacking = needs()
    if lacking:
        raise Cannot(lacking)
    sys.path[:0] = [path for path in (os.getcwd(), os.path.join(os.getcwd(), "src")) if path not in sys.path]
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise ConfigError(
                f"there is no module {error.name} (looked in {os.getcwd()}, its src and the installed packages)"
            ) from None
        raise UserError(_told(error)) from error
    except Exception as error:
        raise UserError(_told(error)) from error
    function: Callable[..., Any] | None = getattr(loaded, name, None)
    if not callable(function):
        raise ConfigError(f"{module} has no function {name}")
    return function


def trace(function: Callable[..., Any], target: str, batch_size: int | None, checkpoint: str) -> tuple[Plan, bytes]:
    """`fit_trace.trace`, with what the user's code raises as UserError."""
    from xla_sim.fit import tracing as fit_trace

    try:
        return fit_trace.trace(function, target, batch_size, checkpoint)
    except (FitError, ShardingError):
        raise
    except Exception as error:
        raise UserError(_told(error)) from error


def _told(error: BaseException) -> str:
    """The traceback from the user's code on, without this package's own frames."""
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    whole, seen = told, set()
    while told is not None and id(told) not in seen:
        seen.add(id(told))
        own = [frame for frame in told.stack if not frame.filename.startswith((_HERE, "<frozen importlib"))]
        told.stack = traceback.StackSummary.from_list(own or list(told.stack))
        told = told.__cause__ or told.__context__
    text = "".join(whole.format()) if whole is not None else ""
    hint = explain(text)
    return text + (f"xla_sim fit: {hint}\n" if hint else "")


def write(folder: Path, plan: Plan, graph: bytes) -> None:
    """plan.json and graph.pb."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.pb").write_bytes(graph)
    (folder / "plan.json").write_text(json.dumps(plan.to_json(), indent=1), encoding="utf-8")


def read(folder: Path) -> tuple[Plan, bytes]:
    """What `write` wrote; raises FitError."""
    try:
        plan = Plan.from_json(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
        return plan, (folder / "graph.pb").read_bytes()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FitError(f"--traced {folder}: no plan that fit has traced ({error})") from error
