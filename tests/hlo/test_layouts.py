"""Bytes in tiles, worked out by hand."""

from __future__ import annotations

import pytest
from xla_sim.hlo.program import Shape

T8 = ((8, 128),)
T8_PACKED = ((8, 128), (2, 1))


@pytest.mark.parametrize(
    ("shape", "text", "logical", "padded", "dims"),
    [
        (Shape("f32", (64, 128), (1, 0), T8, bits=32), "f32[64,128]{1,0:T(8,128)}", 32768, 32768, (64, 128)),
        (Shape("f32", (65, 128), (1, 0), T8, bits=32), "f32[65,128]{1,0:T(8,128)}", 33280, 36864, (72, 128)),
        (Shape("f32", (65, 128), (0, 1), T8, bits=32), "f32[65,128]{0,1:T(8,128)}", 33280, 65536, (128, 128)),
        (Shape("f32", (10, 64), (1, 0), T8, bits=32), "f32[10,64]{1,0:T(8,128)}", 2560, 8192, (16, 128)),
        # 16 bits: tiles of 8 x 128, two rows packed into one of 32 bits
        (Shape("bf16", (24, 128), (1, 0), T8_PACKED, bits=16), "bf16[24,128]{1,0:T(8,128)(2,1)}", 6144, 6144, (24, 128)),
        (Shape("bf16", (1, 128), (1, 0), ((1, 128), (2, 1)), bits=16), "bf16[1,128]{1,0:T(1,128)(2,1)}", 256, 512, (1, 128)),
        # only the two minor-most dimensions are in tiles
        (Shape("f32", (65536, 8, 4), (0, 1, 2), T8, bits=32), "f32[65536,8,4]{0,1,2:T(8,128)}", 8388608, 8388608, (65536, 8, 4)),
        (Shape("f32", (65536, 8, 4), (2, 1, 0), T8, bits=32), "f32[65536,8,4]{2,1,0:T(8,128)}", 8388608, 268435456, (65536, 8, 128)),
        (Shape("f32", (100,), (0,), ((1024,),), bits=32), "f32[100]{0:T(1024)}", 400, 4096, (1024,)),
        (Shape("f32", (), (), ((128,),), bits=32), "f32[]{:T(128)}", 4, 512, ()),
        (Shape("f32", (4, 4), (1, 0), (), bits=32), "f32[4,4]{1,0}", 64, 64, (4, 4)),
        (Shape("f32", (0, 128), (1, 0), T8, bits=32), "f32[0,128]{1,0:T(8,128)}", 0, 0, (0, 128)),
        (Shape("u4", (3,), (0,), (), bits=4), "u4[3]{0}", 2, 2, (3,)),
        (Shape("f32", (8, 128), (1, 0), T8, 1, bits=32), "f32[8,128]{1,0:T(8,128)S(1)}", 4096, 4096, (8, 128)),
    ],
)  # fmt: skip
def test_bytes_in_tiles(shape: Shape, text: str, logical: int, padded: int, dims: tuple[int, ...]) -> None:
    assert (str(shape), shape.logical, shape.padded, shape.padded_dims) == (text, logical, padded, dims)
