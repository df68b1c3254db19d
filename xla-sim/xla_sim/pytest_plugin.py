"""pytest: the ``xla_sim`` fixture and the marker that sets limits.

    def test_step(xla_sim):
        trace = xla_sim.run(train)                     # or xla_sim.run_script("train.py", "--steps", "8")
        assert trace.compiles_after_warmup == 0

    @pytest.mark.xla_sim(max_compiles=2, no_host_sync=True)
    def test_limits(xla_sim):
        xla_sim.run(train)                             # checked at the end of the test

Load it with ``pytest_plugins = ["xla_sim.pytest_plugin"]`` in conftest.py. Marker: ``max_compiles``,
``max_compiles_after_warmup``, ``max_executions_per_step``, ``no_host_sync``, ``no_cpu_fallback``, ``no_findings``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from xla_sim.trace import Count, Trace

LIMITS = (
    "max_compiles", "max_compiles_after_warmup", "max_executions_per_step", "no_host_sync", "no_cpu_fallback",
    "no_findings",
)  # fmt: skip


class Simulator:
    """What the fixture gives: ``run`` and ``run_script`` of `xla_sim`, with the files in the test's own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.traces: list[Trace] = []

    def run(self, function: Callable[..., Any], *args: Any, **options: Any) -> Trace:
        """See `xla_sim.api.run`."""
        from xla_sim import api

        return self._keep(api.run(function, *args, out=self._next(), **options))

    def run_script(self, *arguments: Any, **options: Any) -> Trace:
        """See `xla_sim.api.run_script`."""
        from xla_sim import api

        return self._keep(api.run_script(*arguments, out=self._next(), **options))

    def _next(self) -> Path:
        return self._folder / f"xla_sim-{len(self.traces) + 1}"

    def _keep(self, trace: Trace) -> Trace:
        self.traces.append(trace)
        return trace


@pytest.fixture
def xla_sim(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Simulator, None, None]:
    """Run a callable or a script under observation; see the module `xla_sim.pytest_plugin`."""
    simulator = Simulator(tmp_path)
    yield simulator
    marker = request.node.get_closest_marker("xla_sim")
    if marker is not None:
        if not simulator.traces:
            pytest.fail("the marker xla_sim sets limits, but the test ran nothing through the fixture", pytrace=False)
        broken = [text for trace in simulator.traces for text in broken_limits(trace, marker.kwargs)]
        if broken:
            pytest.fail("\n".join(broken), pytrace=False)


def broken_limits(trace: Trace, limits: dict[str, Any]) -> list[str]:
    """Sentences, one a limit of the marker that the trace exceeds."""
    broken: list[str] = []
    for name, value, most in (
        ("max_compiles", trace.compiles, limits.get("max_compiles")),
        ("max_compiles_after_warmup", trace.compiles_after_warmup, limits.get("max_compiles_after_warmup")),
        ("max_executions_per_step", trace.executions / max(trace.steps, 1), limits.get("max_executions_per_step")),
    ):
        if most is not None and value > most:
            broken.append(f"{name}={most}, but it was {value:g}\n" + "\n".join(describe(trace)))
    for limit, rule in (("no_host_sync", "host-sync"), ("no_cpu_fallback", "cpu-fallback"), ("no_findings", None)):
        if limits.get(limit):
            broken += [
                f"{limit}, but {f.location}: {f.code} {f.rule}: {f.message}\n  fix: {f.fix}"
                for f in trace.findings
                if f.severity != "info" and rule in (f.rule, None)
            ]
    return broken


def describe(trace: Trace) -> list[str]:
    """One line a graph, for a failure."""
    return [
        f"  graph {graph.hash[:8]}: first at step {graph.first_step}, {graph.compiles} compilations, "
        f"{graph.executions} executions, {graph.cause} at {graph.location}"
        for graph in trace.graphs
    ]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"xla_sim({', '.join(LIMITS)}): limits for what the xla_sim fixture runs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("xla_sim"):
            unknown = set(marker.kwargs) - set(LIMITS)
            if unknown or marker.args:
                raise pytest.UsageError(
                    f"{item.nodeid}: the marker xla_sim has no limit {', '.join(sorted(unknown)) or marker.args!r}; "
                    f"it has {', '.join(LIMITS)}"
                )


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show the graphs when a count of a trace isn't what a test expects."""
    for value in (left, right):
        if isinstance(value, Count):
            findings = [f"  {f.location} {f.code} {f.rule}: {f.message}" for f in value.trace.findings]
            return [f"{left} {op} {right}", f"{value.name} of the run:", *describe(value.trace), *findings]
    return None
