"""Small programs as HloModuleProtos, lowered by jax: `python tpu_programs.py FOLDER` in the TPU environment writes NAME.pb for each.

Shapes are chosen so that every figure that the tests ask for can be worked out by hand.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_use_shardy_partitioner", False)  # shardings as HLO has them, which is what torch_xla captures
PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any], tuple[int, ...]]] = {}


def program(*shapes: tuple[tuple[int, ...], Any], donate: tuple[int, ...] = ()) -> Callable[[Any], Any]:
    """Register a function with its arguments' shapes and dtypes."""

    def register(function: Any) -> Any:
        PROGRAMS[function.__name__] = (function, [jax.ShapeDtypeStruct(*shape) for shape in shapes], donate)
        return function

    return register


F32, BF16, F64 = jnp.float32, jnp.bfloat16, jnp.float64


@program(((1024, 512), F32), ((512, 256), F32))
def matmul(a: Any, b: Any) -> Any:
    return a @ b


@program(((1024, 1024), F32), ((1024, 1024), F32))
def update(weight: Any, gradient: Any) -> Any:
    return weight - 0.1 * gradient


@program(((1024, 1024), F32), ((1024, 1024), F32), donate=(0,))
def donated_update(weight: Any, gradient: Any) -> Any:
    return weight - 0.1 * gradient


@program(((512, 512), F32), ((512, 512), F32), ((64, 512), F32))
def two_updates(first: Any, second: Any, x: Any) -> Any:
    loss, (one, two) = jax.value_and_grad(lambda w: jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]).sum())((first, second))
    return loss, first - 0.1 * one, second - 0.1 * two


@program(((512, 512), F32), ((512, 512), F32), ((64, 512), F32))
def inference(first: Any, second: Any, x: Any) -> Any:
    return x + jnp.tanh(jnp.tanh(x @ first) @ second)


@program(((32, 64, 56, 56), F32), ((64, 64, 3, 3), F32))
def convolution(x: Any, kernel: Any) -> Any:
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID")


@program(((4096, 2048), F32), ((2048, 4096), F32))
def too_large(a: Any, b: Any) -> Any:
    rows = jnp.broadcast_to(a[:, None, :], (4096, 4096, 2048))
    scores = jnp.sin(jax.lax.optimization_barrier(rows)) * b.T[None]
    return jax.lax.optimization_barrier(scores).sum(axis=0)


@program(((65536, 8, 4), F32), ((65536, 8, 4), F32))
def narrow_and_long(points: Any, gradient: Any) -> Any:
    return points - 0.1 * gradient


@program(((131072, 3), F32))
def narrow_rows(x: Any) -> Any:
    return jnp.sort(x.reshape(-1, 3), axis=1).reshape(131072, 3).cumsum(axis=1)


@program(((64, 64), jnp.complex128))
def complex128_fft(x: Any) -> Any:
    return jnp.fft.fft(x * 2.0)


@program(((64, 64), F32))
def svd(x: Any) -> Any:
    """Ends libtpu 0.0.42.1 with SIGABRT when jax may make 64-bit integers."""
    return jnp.linalg.svd(x)


@program(((256, 256), F64), ((256, 256), F64))
def float64_matmul(a: Any, b: Any) -> Any:
    return jnp.tanh(a @ b)


@program(((65, 128), F32), ((128, 128), F32))
def unaligned(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w).sum()


@program(((8192, 512), F32), ((512, 512), F32))
def loop(x: Any, w: Any) -> Any:
    return jax.lax.fori_loop(0, 7, lambda _, y: jnp.tanh(y @ w), x)


def save(name: str, lowered: Any, folder: Path) -> None:
    (folder / f"{name}.pb").write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def sharded(folder: Path) -> None:
    """A data-parallel step with its parameters sharded as well, on eight devices."""
    mesh = jax.make_mesh((8,), ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))

    def step(weight: Any, x: Any) -> Any:
        gradient = jax.grad(lambda w: jnp.tanh(x @ w).sum())(weight)
        return weight - 0.1 * gradient

    shapes = [
        jax.ShapeDtypeStruct((1024, 2048), F32, sharding=rows),
        jax.ShapeDtypeStruct((512, 1024), F32, sharding=rows),
    ]
    save("sharded", jax.jit(step, out_shardings=rows, donate_argnums=(0,)).lower(*shapes), folder)

    def kept(first: Any, second: Any, x: Any) -> Any:
        """Their new values bear an annotation, as torch_xla puts on all that is sharded."""
        one, two = jax.grad(lambda w: jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]).sum())((first, second))
        pin = jax.lax.with_sharding_constraint
        return pin(first - 0.1 * one, pinned), pin(second - 0.1 * two, pinned)

    pinned = jax.sharding.NamedSharding(
        jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,)), rows.spec
    )
    square = jax.ShapeDtypeStruct((1024, 1024), F32, sharding=pinned)
    save("sharded_kept", jax.jit(kept).lower(square, square, square), folder)


def large_temporary(x: Any, columns: int) -> Any:
    rows = jax.lax.optimization_barrier(jnp.broadcast_to(x[:, None], (8, columns)))
    return jax.lax.optimization_barrier(jnp.sin(rows)).sum()


def at_the_limit(folder: Path, sizes: list[str]) -> None:
    """``NAME=BYTES``: a program with one donated argument of so many bytes; a NAME with "temporary": with such a temporary."""
    for entry in sizes:
        name, _, count = entry.partition("=")
        if "temporary" in name:
            step = jax.jit(functools.partial(large_temporary, columns=int(count) // 32))
            save(name, step.lower(jax.ShapeDtypeStruct((8,), F32)), folder)
        else:
            shape = jax.ShapeDtypeStruct((int(count) // 4,), F32)
            save(name, jax.jit(lambda x: x + 1, donate_argnums=0).lower(shape), folder)


def main() -> None:
    folder = Path(sys.argv[1])
    if sys.argv[2:]:
        at_the_limit(folder, sys.argv[2:])
        return
    for name, (function, shapes, donate) in PROGRAMS.items():
        traced = jax.jit(function, donate_argnums=donate).trace(*shapes)
        save(name, traced.lower(lowering_platforms=("tpu",)), folder)  # an SVD is another program on a CPU
    sharded(folder)


if __name__ == "__main__":
    main()
