"""Public facts of each TPU generation, and the topologies that the compiler is asked for.

One entry a generation; every figure stands beside the Google Cloud page it is from. Bytes are bytes, FLOP/s and bytes/s are
per chip. To add a generation, add an entry to `CHIPS`.
"""

from __future__ import annotations

import difflib
import itertools
import math
from dataclasses import dataclass

GIB = 2**30
MIB = 2**20


class ChipError(ValueError):
    """The user named a chip or topology that doesn't exist; the message is a sentence for the user."""


@dataclass(frozen=True)
class Chip:
    """One generation of TPU.

    A device is what a PyTorch/XLA program sees and what the compiler gives memory to: the whole chip, except on TPU7x,
    whose two TensorCores are two devices with half of the chip's HBM and FLOP/s each.
    """

    name: str  # "v5e": what users and Google Cloud's documentation write
    prefix: str  # what libtpu's topology names begin with
    one: str  # the smallest topology that libtpu describes; one device of it stands for one chip
    dims: int  # dimensions of its topologies
    hbm: int  # bytes a device
    reserved: int  # bytes of it that the compiler keeps for the runtime; tests/tpu checks them against the compiler
    peak_flops: float  # bf16 FLOP/s a device
    bandwidth: float  # bytes/s between a device and its HBM
    largest: int  # chips of the largest slice, from the generation's own page
    source: str  # where hbm, peak_flops and bandwidth are from
    devices_per_chip: int = 1
    options: tuple[tuple[str, str], ...] = ()  # what libtpu needs to be told besides the topology's name

    @property
    def capacity(self) -> int:
        """HBM bytes a program can have on a device: arguments, outputs, temporaries and code together."""
        return self.hbm - self.reserved


_DOCS = "https://docs.cloud.google.com/tpu/docs/"
CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip(  # 275 TFLOP/s, 32 GiB and 1200 GB/s; both TensorCores work as one device ("megacore")
            "v4", "v4", "v4:2x2x1", 3, 32 * GIB, 1283 * MIB, 275e12, 1200e9, 4096, _DOCS + "v4",
            options=(("chip_config_name", "megacore"),),
        ),
        # 197 TFLOP/s, 16 GB and 819 GB/s; the page has also been seen to round the last one to 800
        Chip("v5e", "v5e", "v5e:2x2", 2, 16 * GIB, 258 * MIB, 197e12, 819e9, 256, _DOCS + "v5e"),
        # 459 TFLOP/s, 95 GB and 2765 GB/s; the compiler counts 96 GiB and reserves the rest
        Chip("v5p", "v5p", "v5p:2x2x1", 3, 96 * GIB, 263 * MIB, 459e12, 2765e9, 6144, _DOCS + "v5p"),
        # 918 TFLOP/s, 32 GiB and 1638 GB/s: so in TPU7x's table; v6e's own page rounds the last one to 1640 or 1600
        Chip("v6e", "v6e", "v6e:2x2", 2, 32 * GIB, 772 * MIB, 918e12, 1638e9, 256, _DOCS + "tpu7x"),
        Chip(  # 2307 TFLOP/s, 192 GiB and 7380 GB/s a chip, which is two devices
            "v7x", "tpu7x", "tpu7x:2x2x1", 3, 96 * GIB, 1284 * MIB, 2307e12 / 2, 7380e9 / 2, 9216, _DOCS + "tpu7x",
            devices_per_chip=2,
        ),
    )
}  # fmt: skip
_ALIASES = {"tpu7x": "v7x", "v7": "v7x", "ironwood": "v7x", "trillium": "v6e", "v5litepod": "v5e", "v5lite": "v5e"}


@dataclass(frozen=True)
class Topology:
    """A slice: so many chips of one generation, in a mesh."""

    chip: Chip
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """As users write it: ``v5e:2x4``."""
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"

    @property
    def libtpu_name(self) -> str:
        return f"{self.chip.prefix}:{'x'.join(map(str, self.shape))}"

    @property
    def chips(self) -> int:
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        return self.chips * self.chip.devices_per_chip


def find_chip(name: str) -> Chip:
    """The generation of that name.

    Raises:
        ChipError: with the nearest name.
    """
    wanted = name.strip().lower().replace("tpu-", "").replace("_", "")
    wanted = _ALIASES.get(wanted, wanted)
    if wanted in CHIPS:
        return CHIPS[wanted]
    slice_ = _accelerator_type(wanted)
    if slice_ is not None:
        raise ChipError(f"{name.strip()!r} is an accelerator type: name the slice by its shape, {slice_.name}")
    near = difflib.get_close_matches(wanted, [*CHIPS, *_ALIASES], 1, 0.5)
    hint = f"did you mean {_ALIASES.get(near[0], near[0])!r}? " if near else ""
    raise ChipError(f"there is no chip {name.strip()!r}: {hint}The chips are {', '.join(CHIPS)}")


def _accelerator_type(text: str) -> Topology | None:
    """The slice that Google Cloud calls ``v5litepod-8``, where the number counts chips, or ``v5p-16``, where it counts TensorCores."""
    name, _, count = text.partition("-")
    chip = CHIPS.get(_ALIASES.get(name, name))
    if chip is None or not count.isdecimal() or chip.devices_per_chip > 1:
        return None
    found = topology_for(chip, int(count) // (chip.dims - 1))
    return found if found and found.devices * (chip.dims - 1) == int(count) else None


def find_topology(text: str) -> Topology:
    """The slice that ``v5e:2x4`` names; a chip's name alone means its smallest slice.

    Raises:
        ChipError: for an unknown chip or a shape that the generation doesn't have.
    """
    name, colon, shape_text = text.strip().partition(":")
    chip = find_chip(name)
    if not colon:
        return find_topology(chip.one)
    example = f"write it like {'2x4' if chip.dims == 2 else '2x2x2'}, for example {_example(chip)}"
    try:
        shape = tuple(int(part) for part in shape_text.lower().split("x"))
    except ValueError:
        raise ChipError(f"{text.strip()!r} has no topology that can be read: {example}") from None
    if len(shape) != chip.dims or min(shape) < 1:
        raise ChipError(f"a topology of {chip.name} has {chip.dims} dimensions, {shape_text!r} does not: {example}")
    topology = Topology(chip, shape)
    if topology.chips == 1:
        raise ChipError(f"{topology.name} is one chip: name it without a shape, {chip.name}")
    if shape[0] % 2 or shape[1] % 2:  # libtpu: "not divisible by the given (or default) chips_per_host_bounds 2x2x1"
        raise ChipError(
            f"there is no slice {topology.name}: a host has 2x2 chips, so its first two sides are even; {example}"
        )
    if topology.chips > chip.largest:
        raise ChipError(
            f"{topology.name} has {topology.chips} chips, the largest slice of {chip.name} has {chip.largest}"
        )
    return topology


def topology_for(chip: Chip, devices: int) -> Topology | None:
    """The most compact slice with that many devices, or with the next larger number that a slice has."""
    for wanted in range(devices, 2 * max(devices, 8) + 1):
        chips, rest = divmod(wanted, chip.devices_per_chip)
        shapes = [] if rest or chips < 4 else _shapes(chip, chips)
        if shapes:
            return Topology(chip, min(shapes, key=sum))
    return None


def _shapes(chip: Chip, chips: int) -> list[tuple[int, ...]]:
    """Slices of that many chips as libtpu writes them: even sides, ``2x4``, ``2x2x1``; none below one host's four chips."""
    sides = [size for size in range(1, chips + 1) if chips % size == 0 and (size == 1 or size % 2 == 0)]
    shapes = [
        shape
        for shape in itertools.combinations_with_replacement(sides, chip.dims)
        if math.prod(shape) == chips <= chip.largest
    ]
    if chip.dims == 2:
        return [shape for shape in shapes if min(shape) > 1]
    return [_ones_last(shape) for shape in shapes if shape.count(1) < 2]


def _ones_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(size for size in shape if size > 1)) + tuple(size for size in shape if size == 1)


def _example(chip: Chip) -> str:
    return f"{chip.name}:2x4" if chip.dims == 2 else f"{chip.name}:2x2x2"
