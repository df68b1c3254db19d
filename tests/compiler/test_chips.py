"""Chips and topologies: what users write, what libtpu is told, and where the figures are from."""

from __future__ import annotations

import pytest
from xla_sim.compiler.chips import CHIPS, GIB, ChipError, find_chip, find_topology, topology_for


def test_every_generation_has_its_public_source_and_plausible_figures() -> None:
    assert list(CHIPS) == ["v4", "v5e", "v5p", "v6e", "v7x"]
    for chip in CHIPS.values():
        assert chip.source.startswith("https://docs.cloud.google.com/tpu/docs/")
        assert 0.95 < chip.capacity / chip.hbm < 1
        assert 1e14 < chip.peak_flops < 2e15 and 5e11 < chip.bandwidth < 1e13


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("v5e", "v5e"),
        ("V5E", "v5e"),
        ("tpu7x", "v7x"),
        ("v7x", "v7x"),
        ("trillium", "v6e"),
        ("tpu-v5p", "v5p"),
        ("v5litepod", "v5e"),
    ],
)
def test_names_that_people_write(written: str, name: str) -> None:
    assert find_chip(written).name == name


def test_an_unknown_chip_is_answered_with_the_nearest() -> None:
    with pytest.raises(ChipError) as caught:
        find_chip("v5q")
    assert str(caught.value) == "there is no chip 'v5q': did you mean 'v5p'? The chips are v4, v5e, v5p, v6e, v7x"


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("v6e:2x2x2", "a topology of v6e has 2 dimensions, '2x2x2' does not: write it like 2x4, for example v6e:2x4"),
        ("v5p:2x4", "a topology of v5p has 3 dimensions, '2x4' does not: write it like 2x2x2, for example v5p:2x2x2"),
        ("v5e:axb", "'v5e:axb' has no topology that can be read: write it like 2x4, for example v5e:2x4"),
        ("v5e:", "'v5e:' has no topology that can be read: write it like 2x4, for example v5e:2x4"),
        ("v5e:0x4", "a topology of v5e has 2 dimensions, '0x4' does not: write it like 2x4, for example v5e:2x4"),
        ("v5e:1x1", "v5e:1x1 is one chip: name it without a shape, v5e"),
        ("v6e:3x4", "there is no slice v6e:3x4: a host has 2x2 chips, so its first two sides are even; write it like 2x4, for example v6e:2x4"),
        ("v4:2x1x2", "there is no slice v4:2x1x2: a host has 2x2 chips, so its first two sides are even; write it like 2x2x2, for example v4:2x2x2"),
        ("v5litepod-8", "'v5litepod-8' is an accelerator type: name the slice by its shape, v5e:2x4"),
        ("v6e-16", "'v6e-16' is an accelerator type: name the slice by its shape, v6e:4x4"),
        ("v5p-16", "'v5p-16' is an accelerator type: name the slice by its shape, v5p:2x2x2"),
        ("v5e:32x32", "v5e:32x32 has 1024 chips, the largest slice of v5e has 256"),
    ],
)  # fmt: skip
def test_a_topology_that_cannot_be(written: str, sentence: str) -> None:
    with pytest.raises(ChipError) as caught:
        find_topology(written)
    assert str(caught.value) == sentence


def test_a_slice_counts_devices_not_chips_where_a_chip_is_two() -> None:
    assert find_topology("v5e:2x4").devices == 8
    assert find_topology("tpu7x:2x2x1").devices == 8
    assert find_topology("v7x:2x2x1").libtpu_name == "tpu7x:2x2x1"
    assert CHIPS["v7x"].hbm * 2 == 192 * GIB


@pytest.mark.parametrize(
    ("chip", "devices", "name"),
    [
        ("v5e", 1, "v5e:2x2"),
        ("v5e", 8, "v5e:2x4"),
        ("v5e", 256, "v5e:16x16"),
        ("v5p", 8, "v5p:2x2x2"),
        ("v4", 4, "v4:2x2x1"),
        ("v7x", 8, "v7x:2x2x1"),
        ("v7x", 16, "v7x:2x2x2"),
    ],
)
def test_the_slice_for_so_many_devices_is_the_most_compact_one(chip: str, devices: int, name: str) -> None:
    topology = topology_for(CHIPS[chip], devices)
    assert topology is not None and topology.name == name


def test_no_slice_is_larger_than_the_pod() -> None:
    assert topology_for(CHIPS["v5e"], 1024) is None
