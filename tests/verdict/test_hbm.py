"""HBM figures against arithmetic and against the compiler's own limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compiled import Compile
from xla_sim.compiler.chips import CHIPS, MIB, Chip
from xla_sim.compiler.results import CompileRequest, Hbm
from xla_sim.compiler.scheduler import compile_all

F32 = 4
KIB = 2**10
WEIGHT = 1024 * 1024 * F32


def data(hbm: Hbm | None) -> tuple[int, int, int]:
    assert hbm is not None
    assert hbm.total == hbm.arguments + hbm.outputs - hbm.aliased + hbm.temporaries + hbm.code
    return hbm.arguments, hbm.outputs, hbm.aliased


def test_tensors_of_known_size(compiled: Compile) -> None:
    (result,) = compiled("matmul")
    assert result.status == "ok"
    assert data(result.hbm) == ((1024 * 512 + 512 * 256) * F32, 1024 * 256 * F32, 0)


def test_donation_lets_the_new_value_take_the_place_of_the_old(compiled: Compile) -> None:
    kept, donated = compiled("update", "donated_update")
    assert data(kept.hbm) == (2 * WEIGHT, WEIGHT, 0)
    assert data(donated.hbm) == (2 * WEIGHT, WEIGHT, WEIGHT)
    assert kept.hbm and donated.hbm and kept.hbm.total - donated.hbm.total >= WEIGHT - MIB


def test_buffers_at_the_peak_are_named_with_shape_bytes_and_line(compiled: Compile) -> None:
    (result,) = compiled("too_large")
    assert result.status == "oom" and result.hbm
    largest = result.buffers[0]
    assert (largest.kind, largest.dims) == ("temporary", (4096, 4096, 2048))
    assert largest.logical == largest.padded == largest.bytes == 4096 * 4096 * 2048 * F32
    assert Path(largest.location.file).name == "tpu_programs.py" and largest.location.function == "too_large"
    assert result.hbm.total > result.hbm.capacity == CHIPS["v5e"].capacity


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.name)
def test_just_under_the_capacity_is_accepted_and_just_over_refused(
    chip: Chip, lower: Callable[..., None], tmp_path: Path
) -> None:
    under, over = chip.capacity - MIB, chip.capacity + MIB
    lower(tmp_path, f"under={under}", f"over={over}")
    accepted, refused = compile_all(
        [CompileRequest(name, tmp_path / f"{name}.pb", chip.name) for name in ("under", "over")]
    )
    assert (accepted.status, refused.status) == ("ok", "oom")
    assert accepted.hbm and chip.capacity - MIB <= accepted.hbm.total <= chip.capacity
    assert refused.hbm and chip.capacity < refused.hbm.total <= chip.capacity + 2 * MIB
    assert refused.message.startswith("RESOURCE_EXHAUSTED: Ran out of memory on HBM")


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.name)
def test_a_temporary_that_fits_until_there_is_code(chip: Chip, lower: Callable[..., None], tmp_path: Path) -> None:
    """The compiler finds that out last, and then counts temporaries as part of the program; code is still only code."""
    lower(tmp_path, f"temporary-under={chip.capacity - 4 * MIB}", f"temporary-over={chip.capacity - 64 * KIB}")
    accepted, refused = compile_all(
        [CompileRequest(name, tmp_path / f"{name}.pb", chip.name) for name in ("temporary-under", "temporary-over")]
    )
    assert (accepted.status, refused.status) == ("ok", "oom")
    assert accepted.hbm and chip.capacity - 4 * MIB <= accepted.hbm.total <= chip.capacity
    assert refused.hbm and refused.hbm.temporaries < chip.capacity < refused.hbm.total < chip.capacity + 4 * MIB
    assert 0 < refused.hbm.code < 4 * MIB and data(refused.hbm)
    assert "Ran out of memory in memory space hbm" in refused.message
