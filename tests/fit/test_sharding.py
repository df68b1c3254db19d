"""Meshes, patterns and what is wrong with them, in words with the numbers in them."""

from __future__ import annotations

import pytest
from xla_sim.fit.sharding import (
    Mesh,
    ShardingError,
    assign,
    check_axes_used,
    check_batch,
    check_topology,
    default_spec,
    elements_per_chip,
    parse_mesh,
    parse_spec,
    to_sharding,
)

MESH = parse_mesh("data=2,fsdp=4,tensor=8")


def message(call: object, *arguments: object) -> str:
    with pytest.raises(ShardingError) as caught:
        call(*arguments)  # type: ignore[operator]
    return str(caught.value)


def test_a_mesh_is_read_in_order() -> None:
    assert Mesh((("data", 2), ("fsdp", 4), ("tensor", 8))) == MESH
    assert MESH.size == 64
    assert MESH.batch_axes == ("data", "fsdp")
    assert str(MESH) == "data=2,fsdp=4,tensor=8"


@pytest.mark.parametrize("text", ["", "fsdp", "fsdp=", "fsdp=0", "fsdp=x", "=4", "fsdp=4,,data=2", "fsdp=-1"])
def test_what_is_no_mesh_is_refused(text: str) -> None:
    assert "is not AXIS=SIZE; write for example data=4,fsdp=8" in message(parse_mesh, text)


def test_an_axis_named_twice_is_refused() -> None:
    assert message(parse_mesh, "fsdp=4,fsdp=2") == "mesh 'fsdp=4,fsdp=2' names the axis 'fsdp' twice"


def test_a_mesh_fills_its_topology() -> None:
    check_topology(MESH, "v5e:8x8", 64)
    assert message(check_topology, MESH, "v5e:4x4", 16) == (
        "mesh data=2,fsdp=4,tensor=8 is 2 x 4 x 8 = 64 chips, v5e:4x4 has 16: "
        "make the axes multiply to 16, or choose a topology of 64 chips"
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("-,-", "{replicated}"),
        ("fsdp,-", "{devices=[4,1,16]<=[2,4,8]T(1,0,2) last_tile_dim_replicate}"),
        ("fsdp,tensor", "{devices=[4,8,2]<=[2,4,8]T(1,2,0) last_tile_dim_replicate}"),
        ("data+fsdp,tensor", "{devices=[8,8]<=[2,4,8]}"),
        ("tensor,data+fsdp", "{devices=[8,8]<=[2,4,8]T(2,0,1)}"),
    ],
)
def test_a_spec_becomes_the_sharding_that_xla_writes(spec: str, expected: str) -> None:
    assert str(to_sharding(parse_spec(spec, "here"), MESH)) == expected


def test_the_default_is_fsdp_on_the_largest_dimension_and_tensor_on_another() -> None:
    assert default_spec((1024, 4096), MESH) == (("tensor",), ("fsdp",))
    assert default_spec((4096,), MESH) == (("fsdp",),)
    assert default_spec((10,), MESH) == ((),)  # 4 doesn't divide 10
    assert default_spec((), MESH) == ()
    assert default_spec((1024, 4095), parse_mesh("fsdp=4")) == (("fsdp",), ())


def test_elements_per_chip_are_those_of_the_largest_part() -> None:
    assert elements_per_chip((1024, 4096), default_spec((1024, 4096), MESH), MESH) == 1024 * 4096 // 32
    assert elements_per_chip((10,), (("fsdp",),), MESH) == 3


SHAPES = {"layers.0.attn.q.weight": (64, 128), "layers.0.attn.q.bias": (64,), "head.weight": (100, 64)}


def test_the_first_pattern_that_matches_wins_and_the_rest_is_default() -> None:
    specs = assign(SHAPES, {"*.attn.*.weight": ["tensor", "fsdp"], "layers.*.weight": [None, None]}, MESH, "parameters")
    assert specs["layers.0.attn.q.weight"] == (("tensor",), ("fsdp",))
    assert specs["layers.0.attn.q.bias"] == (("fsdp",),)
    assert specs["head.weight"] == (("fsdp",), ("tensor",))


def test_wrong_patterns_say_what_is_wrong() -> None:
    def wrong(pattern: str, spec: object) -> str:
        return message(assign, SHAPES, {pattern: spec}, MESH, "parameters")

    assert wrong("*.attn.*.wait", ["fsdp"]).startswith("parameters '*.attn.*.wait' matches none of the 3 names")
    assert wrong("head.weight", ["fsdp"]) == (
        "parameters 'head.weight' gives 1 dimensions, head.weight has 2 (shape [100, 64])"
    )
    assert wrong("head.weight", ["tensor", None]) == (
        "parameters 'head.weight': tensor=8 doesn't divide dimension 0 of head.weight (shape [100, 64]): 100 / 8 leaves 4"
    )
    assert wrong("head.weight", ["tensors", None]) == (
        "parameters 'head.weight': the axis 'tensors' is not in the mesh data=2,fsdp=4,tensor=8; the nearest is 'tensor'"
    )
    assert wrong("head.weight", ["fsdp", "fsdp"]) == (
        "parameters 'head.weight' uses the axis 'fsdp' twice; an axis can divide one dimension only"
    )
    assert wrong("head.weight", 8).endswith(
        'a sharding is a list with an axis or null for each dimension, like ["tensor", "fsdp"]'
    )


def test_an_axis_that_divides_nothing_is_refused() -> None:
    check_axes_used(MESH, [(("tensor",), ())])
    assert "the axis tensor=8 of the mesh data=2,fsdp=4,tensor=8 divides no parameter" in message(
        check_axes_used, MESH, []
    )


def test_a_batch_that_does_not_divide_is_refused() -> None:
    check_batch("0", (16, 128), MESH)
    assert message(check_batch, "0", (12, 128), MESH) == (
        "the batch (0, shape [12, 128]) can't be divided over data x fsdp = 8: its first dimension is 12; give a multiple of 8"
    )
