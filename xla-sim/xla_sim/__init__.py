"""Simulate a TPU for a PyTorch/XLA training program: observe it on XLA's CPU device, and ask the TPU compiler.

    >>> import xla_sim
    >>> trace = xla_sim.run(train)              # a callable, in a process of its own
    >>> trace = xla_sim.run_script("train.py")  # a script
    >>> trace.compiles_after_warmup, trace.findings

In a notebook, ``%load_ext xla_sim``, then ``%%xla_sim`` above a cell. The command line is ``python -m xla_sim``. Importing this package imports neither torch nor rich.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xla_sim.api import run, run_script
    from xla_sim.trace import Finding, Location, Trace

__version__ = "0.2.0"
__all__ = ["Finding", "Location", "Trace", "run", "run_script"]


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext xla_sim`` calls."""
    from xla_sim.notebook import load

    load(shell)


def __getattr__(name: str) -> Any:
    if name in ("run", "run_script"):
        from xla_sim import api

        return getattr(api, name)
    if name in ("Finding", "Location", "Trace"):
        from xla_sim import trace

        return getattr(trace, name)
    raise AttributeError(f"module 'xla_sim' has no attribute {name!r}")
