"""FLOP, traffic, bound, collectives and padding of compiled programs, against arithmetic."""

from __future__ import annotations

import pytest
from compiled import Compile
from xla_sim.compiler.chips import CHIPS, MIB


def test_the_bound_is_flop_and_bytes_over_public_peaks(compiled: Compile) -> None:
    (result,) = compiled("matmul")
    bound, chip = result.bound, CHIPS["v5e"]
    assert bound is not None
    assert bound.matrix_flops == 2 * 1024 * 512 * 256
    assert bound.hbm_bytes == 4 * (1024 * 512 + 512 * 256 + 1024 * 256)
    assert bound.compute_seconds == bound.matrix_flops / chip.peak_flops
    assert bound.memory_seconds == bound.hbm_bytes / chip.bandwidth
    assert bound.seconds == max(bound.compute_seconds, bound.memory_seconds)
    assert bound.mxu_share == pytest.approx(bound.compute_seconds / bound.seconds)


def test_a_convolution_counts_what_its_window_meets(compiled: Compile) -> None:
    (result,) = compiled("convolution")
    assert result.bound is not None
    assert result.bound.matrix_flops == pytest.approx(2 * 32 * 54 * 54 * 64 * 64 * 9, rel=0.01)


def test_a_loop_counts_every_turn(compiled: Compile) -> None:
    (result,) = compiled("loop")
    assert result.bound is not None
    assert result.bound.matrix_flops == pytest.approx(7 * 2 * 8192 * 512 * 512)


def test_the_share_of_the_matrix_unit_is_one_at_most(compiled: Compile) -> None:
    for chip in ("v5e", "v7x"):
        (result,) = compiled("loop", topology=chip)
        assert result.bound is not None and 0 < result.bound.mxu_share <= 1


def test_narrow_and_long_tensors_are_laid_out_without_padding(compiled: Compile) -> None:
    """The compiler gives f32[65536,8,4] a layout whose last dimension is the long one; nobody pays for 4 of 128 lanes."""
    (result,) = compiled("narrow_and_long")
    assert result.padding is not None
    assert result.padding.logical >= 3 * 65536 * 8 * 4 * 4
    assert result.padding.padded - result.padding.logical < MIB / 16


def test_what_is_padded_is_told_per_tensor(compiled: Compile) -> None:
    (result,) = compiled("convolution")
    image = result.arguments[0]
    assert image.dims == (32, 64, 56, 56) and image.logical == 32 * 64 * 56 * 56 * 4
    padded = 1
    for size in image.padded_dims:
        padded *= size
    assert image.padded == padded * 4 > image.logical
    assert result.padding is not None and image.name in [tensor.name for tensor in result.padding.tensors]
    assert result.padding.padded == sum(buffer.padded for buffer in result.buffers)


def test_collectives_of_a_sharded_step(compiled: Compile) -> None:
    """Weights of 1024 x 2048 in eight parts: gathered once, their gradient scattered once."""
    (result,) = compiled("sharded", topology="v5e:2x4", partitions=8)
    assert result.status == "ok" and result.chips == 8 and result.hbm is not None
    assert result.hbm.arguments == (1024 * 2048 + 512 * 1024) * 4 // 8
    assert result.hbm.aliased == 1024 * 2048 * 4 // 8
    kinds = {one.kind: one for one in result.collectives}
    assert "all-gather" in kinds and {"reduce-scatter", "all-reduce"} & set(kinds)
    for one in kinds.values():
        assert one.count >= 1 and one.largest is not None and one.bytes >= one.largest.bytes
        assert one.largest.location.file.endswith("tpu_programs.py") and one.largest.location.line
    gathered = kinds["all-gather"].largest
    assert gathered is not None and gathered.bytes in (1024 * 2048 * 4, 1024 * 2048 * 2)  # float32, or already bfloat16
