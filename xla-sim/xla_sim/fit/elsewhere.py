"""Trace in another Python: the one that has the user's torch_xla, where this one has none.

The trace is what `load.write` writes, so both sides share files alone; what was raised there is raised again here.
"""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from xla_sim.fit.load import Cannot, UserError, load, read, trace, write
from xla_sim.fit.plan import FitError, NeedsValue, Place, Plan
from xla_sim.fit.sharding import ShardingError
from xla_sim.observe import isolated
from xla_sim.rules.selection import ConfigError

_TOLD: tuple[type[Exception], ...] = (ConfigError, ShardingError, FitError, UserError, Cannot)
_ANSWER = "traced.json"


def trace_in(
    python: str, target: str, batch_size: int | None, checkpoint: str, folder: Path
) -> tuple[tuple[Plan, bytes], bool]:
    """The trace, which is written to ``folder`` too, and whether the function takes a batch size.

    Raises:
        ConfigError, ShardingError, FitError, UserError, Cannot: as `load` and `trace` do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer = folder / _ANSWER
    answer.unlink(missing_ok=True)
    asked = json.dumps([target, batch_size, checkpoint, str(folder.absolute())])
    done = subprocess.run(isolated.command(python, "xla_sim.fit.elsewhere", asked), check=False)
    if not answer.is_file():
        name = signal.Signals(-done.returncode).name if done.returncode < 0 else f"status {done.returncode}"
        raise UserError(f"the process that traced {target} in {python} ended with {name}\n")
    told: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    answer.unlink()
    if "reads" in told:
        raise NeedsValue(told["reads"], Place(*told["place"]) if told["place"] else None)
    for kind in _TOLD:
        if told.get("error") == kind.__name__:
            raise kind(told["message"])
    return read(folder), bool(told["varies"])


def main(arguments: list[str]) -> int:
    """The other side: trace as asked, and write what came of it."""
    target, batch_size, checkpoint, name = json.loads(arguments[0])
    folder = Path(name)
    told: dict[str, Any]
    try:
        function = load(target)
        write(folder, *trace(function, target, batch_size, checkpoint))
        told = {"varies": "batch_size" in inspect.signature(function).parameters}
    except NeedsValue as error:
        told = {"reads": error.operation, "place": error.place}
    except _TOLD as error:
        kind = next(kind for kind in _TOLD if isinstance(error, kind))
        told = {"error": kind.__name__, "message": str(error)}
    except KeyboardInterrupt:
        return 130
    (folder / _ANSWER).write_text(json.dumps(told), encoding="utf-8")
    return 0
