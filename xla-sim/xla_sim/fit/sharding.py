"""Meshes and shardings, as people write them and as the TPU compiler reads them.

A mesh names the ways in which the chips of a slice are divided: `data=4,fsdp=8` is 32 chips, four groups of eight.
A spec says which axes divide each dimension of a tensor: `["tensor", "fsdp"]` for a matrix, `null` for a dimension that
every chip holds whole. Nothing here needs torch or jax.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Spec = tuple[tuple[str, ...], ...]  # for each dimension the axes that divide it, outermost first

BATCH_AXES = ("data", "fsdp")  # the axes that divide the batch: FSDP is data parallelism with the weights shared out
FSDP, TENSOR = "fsdp", "tensor"


class ShardingError(ValueError):
    """The mesh or a sharding can't be used; the message is a sentence with the numbers in it."""


@dataclass(frozen=True)
class Mesh:
    """Chips arranged in named axes, the first one outermost: `axes` are (name, size) pairs."""

    axes: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """Number of chips."""
        return math.prod(size for _, size in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    def ways(self, axes: Sequence[str]) -> int:
        """In how many parts these axes divide a dimension."""
        sizes = dict(self.axes)
        return math.prod(sizes[name] for name in axes)

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """The axes that divide the batch."""
        return tuple(name for name in self.names if name in BATCH_AXES)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)


def parse_mesh(text: str) -> Mesh:
    """Read `data=4,fsdp=8`; raises ShardingError on anything else."""
    axes: list[tuple[str, int]] = []
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals or not name.isidentifier() or not size.isdigit() or int(size) < 1:
            raise ShardingError(f"mesh {text!r}: {part.strip()!r} is not AXIS=SIZE; write for example data=4,fsdp=8")
        if name in dict(axes):
            raise ShardingError(f"mesh {text!r} names the axis {name!r} twice")
        axes.append((name, int(size)))
    return Mesh(tuple(axes))


def check_topology(mesh: Mesh, topology: str, chips: int) -> None:
    """A mesh uses every chip of its topology, once."""
    if mesh.size != chips:
        sizes = " x ".join(str(size) for _, size in mesh.axes)
        raise ShardingError(
            f"mesh {mesh} is {sizes}{'' if len(mesh.axes) == 1 else f' = {mesh.size}'} chips, {topology} has {chips}: "
            f"make the axes multiply to {chips}, or choose a topology of {mesh.size} chips"
        )


@dataclass(frozen=True)
class Sharding:
    """How one tensor is divided, in the terms of XLA's OpSharding.

    `tiles` are the parts per dimension, with one more entry for the copies when the mesh has axes that the tensor doesn't
    use; `mesh` and `order` say which chip holds which part: chips numbered over `mesh`, axes permuted to `order`.
    Empty `tiles` mean that every chip holds the whole tensor. `free` are dimensions left to the compiler.
    """

    tiles: tuple[int, ...] = ()
    mesh: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    copies: bool = False
    free: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.tiles:
            return "{replicated}"
        tiles, mesh = (",".join(map(str, numbers)) for numbers in (self.tiles, self.mesh))
        turned = f"T({','.join(map(str, self.order))})" if self.order != tuple(range(len(self.mesh))) else ""
        return f"{{devices=[{tiles}]<=[{mesh}]{turned}{' last_tile_dim_replicate' if self.copies else ''}}}"


def to_sharding(spec: Spec, mesh: Mesh, free: Sequence[int] = ()) -> Sharding:
    """The spec on this mesh; axes of size one and unused axes need no care from the caller."""
    used = [mesh.names.index(name) for axes in spec for name in axes]
    copies = mesh.size // mesh.ways([name for axes in spec for name in axes])
    if copies == mesh.size and not free:
        return Sharding()
    rest = [axis for axis in range(len(mesh.axes)) if axis not in used]
    tiles = tuple(mesh.ways(axes) for axes in spec)
    return Sharding(
        tiles=tiles + ((copies,) if copies > 1 else ()),
        mesh=tuple(size for _, size in mesh.axes),
        order=tuple(used + rest),
        copies=copies > 1,
        free=tuple(free),
    )


def elements_per_chip(shape: Sequence[int], spec: Spec, mesh: Mesh) -> int:
    """Elements of the largest part; parts are padded to equal size as the compiler pads them."""
    return math.prod(-(-size // mesh.ways(axes)) for size, axes in zip(shape, spec))


def parse_spec(value: Any, where: str) -> Spec:
    """Read `["tensor", None, ["data", "fsdp"]]` from TOML or `tensor,-,data+fsdp` from the command line."""
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)):
        raise ShardingError(
            f'{where}: a sharding is a list with an axis or null for each dimension, like ["tensor", "fsdp"]'
        )
    spec: list[tuple[str, ...]] = []
    for entry in entries:
        names = entry.split("+") if isinstance(entry, str) else entry or []
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise ShardingError(f"{where}: {entry!r} is neither an axis, a list of axes nor null")
        spec.append(tuple(name.strip() for name in names if name.strip() not in ("", "-", "null", "none")))
    return tuple(spec)


def check_spec(spec: Spec, shape: Sequence[int], mesh: Mesh, where: str, what: str) -> None:
    """Every axis exists, is used once and divides its dimension; `where` and `what` name the pattern and the tensor."""
    if len(spec) != len(shape):
        raise ShardingError(f"{where} gives {len(spec)} dimensions, {what} has {len(shape)} (shape {list(shape)})")
    seen: list[str] = []
    for number, (axes, size) in enumerate(zip(spec, shape)):
        for name in axes:
            if name not in mesh.names:
                raise ShardingError(f"{where}: the axis {name!r} is not in the mesh {mesh}{_nearest(name, mesh.names)}")
            if name in seen:
                raise ShardingError(f"{where} uses the axis {name!r} twice; an axis can divide one dimension only")
            seen.append(name)
        if size % mesh.ways(axes):
            raise ShardingError(
                f"{where}: {'+'.join(axes)}={mesh.ways(axes)} doesn't divide dimension {number} of {what} "
                f"(shape {list(shape)}): {size} / {mesh.ways(axes)} leaves {size % mesh.ways(axes)}"
            )


def default_spec(shape: Sequence[int], mesh: Mesh) -> Spec:
    """FSDP: the largest dimension that `fsdp` divides; of the others the largest that `tensor` divides, for matrices.

    What no dimension of divides stays whole on each chip, as small vectors and scalars do.
    """
    spec: list[tuple[str, ...]] = [() for _ in shape]
    for axis in (FSDP, TENSOR):
        if axis not in mesh.names or (axis == TENSOR and len(shape) < 2):
            continue
        fits = [
            number for number, size in enumerate(shape) if not spec[number] and size and size % mesh.ways([axis]) == 0
        ]
        if fits:
            spec[max(fits, key=lambda number: (shape[number], -number))] = (axis,)
    return tuple(spec)


def assign(shapes: Mapping[str, Sequence[int]], patterns: Mapping[str, Any], mesh: Mesh, table: str) -> dict[str, Spec]:
    """A spec for each named tensor: the first pattern that matches its name, or the default.

    Raises ShardingError for a pattern that matches no name, and for one that can't be applied to a tensor it matches.
    `table` is how the patterns are called in messages.
    """
    specs: dict[str, Spec] = {}
    for pattern, value in patterns.items():
        where = f"{table} {pattern!r}"
        spec = parse_spec(value, where)
        matched = [name for name in shapes if fnmatch.fnmatchcase(name, pattern)]
        if not matched:
            raise ShardingError(f"{where} matches none of the {len(shapes)} names{_nearest(pattern, list(shapes))}")
        for name in matched:
            if name not in specs:
                check_spec(spec, shapes[name], mesh, where, name)
                specs[name] = spec
    return {name: specs[name] if name in specs else default_spec(shape, mesh) for name, shape in shapes.items()}


def check_axes_used(mesh: Mesh, specs: Sequence[Spec]) -> None:
    """An axis that divides nothing makes its chips repeat each other's work, which nobody asks for on purpose."""
    used = {name for spec in specs for axes in spec for name in axes} | set(mesh.batch_axes)
    for name, size in mesh.axes:
        if name not in used and size > 1:
            raise ShardingError(
                f"the axis {name}={size} of the mesh {mesh} divides no parameter, activation or batch, so {size} chips would do the "
                f'same work: give it a pattern in [tool.xla_sim.fit.parameters], like "*.weight" = ["{name}", "fsdp"]'
            )


def check_batch(name: str, shape: Sequence[int], mesh: Mesh) -> None:
    """The batch divides evenly over the axes that share it out."""
    ways = mesh.ways(mesh.batch_axes)
    if not shape or shape[0] % ways:
        size = shape[0] if shape else "none"
        raise ShardingError(
            f"the batch ({name}, shape {list(shape)}) can't be divided over {' x '.join(mesh.batch_axes)} = {ways}: "
            f"its first dimension is {size}; give a multiple of {ways}"
        )


def _nearest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.4)
    return f"; the nearest is {near[0]!r}" if near else ""
