"""Graphs of every stack compile, whatever torch_xla wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
from xla_sim.compiler.cache import Cache
from xla_sim.compiler.results import CompileRequest
from xla_sim.compiler.scheduler import compile_all

GRAPHS = Path(__file__).parents[1] / "hlo" / "graphs"
PARAMETERS = 4 * (64 * 128 + 64 + 10 * 64 + 10)  # float32 bytes


@pytest.mark.parametrize("version", ["2.4.0", "2.7.0"])
def test_a_step_of_an_older_torch_xla(version: str, cache: Cache, tpu_python: str) -> None:
    graph = GRAPHS / f"torch_xla_{version}.pb"
    (result,) = compile_all([CompileRequest(version, graph, "v5e")], cache=cache)
    assert (result.status, result.message) == ("ok", "")
    assert result.hbm is not None and result.hbm.aliased >= PARAMETERS  # donation is understood: padded, so no less
    assert result.held_twice == ()
    assert result.bound is not None and result.bound.matrix_flops == 2 * 64 * (2 * 128 * 64 + 3 * 64 * 10)
