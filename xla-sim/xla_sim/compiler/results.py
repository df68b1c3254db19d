"""What the TPU compiler said of one graph on one topology: plain, frozen data, to JSON and back.

Bytes and FLOP are those of one device: the whole chip, or half of a TPU7x (see `chips.Chip`). Times are seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xla_sim.trace import Frame, Location

STATUSES = ("ok", "oom", "rejected", "crashed", "timeout")


@dataclass(frozen=True)
class CompileRequest:
    """One compilation to be done."""

    graph: str  # the graph's hash in report.json, or any name
    hlo: Path  # a serialized HloModuleProto
    topology: str  # "v5e:2x4", or "v5e" for one chip
    partitions: int = 1  # devices that the graph's shardings are for
    narrow: bool = False  # compile it with float64, int64 and complex128 narrowed to their 32-bit halves
    buffers: int = 20  # how many of the largest buffers to list
    code: bool = True  # False: stop when HBM is laid out, before code is generated
    options: tuple[tuple[str, str], ...] = ()  # XLA options: (("xla_tpu_…", "true"),)


@dataclass(frozen=True)
class Hbm:
    """HBM as the compiler lays it out. total = arguments + outputs - aliased + temporaries + code."""

    capacity: int  # what a program can have
    arguments: int
    outputs: int
    aliased: int  # outputs that take the place of a donated argument
    temporaries: int
    code: int  # 0 where compilation stopped before there was any
    total: int


@dataclass(frozen=True)
class Buffer:
    """One tensor in HBM."""

    name: str  # of the instruction that makes it, in the compiled program
    kind: str  # "argument", "output" or "temporary"
    shape: str  # with its layout: "f32[64,10]{1,0:T(8,128)}"
    logical: int  # bytes of its elements
    padded: int  # bytes in tiles
    bytes: int  # of its allocation
    op_name: str = ""  # as the program's metadata has it
    parameter: int | None = None  # number of the argument
    dims: tuple[int, ...] = ()
    padded_dims: tuple[int, ...] = ()  # dims as the tiles round them up
    location: Location = field(default_factory=Location)
    source: str = ""  # the instruction whose value it holds, maybe rearranged


@dataclass(frozen=True)
class Padding:
    """Elements against tiles, over the arguments, outputs and temporaries that are alive at the peak."""

    logical: int
    padded: int
    tensors: tuple[Buffer, ...] = ()  # the most wasteful first


@dataclass(frozen=True)
class Bound:
    """A lower bound on the time of one execution, and nothing else: the chip can't be faster than this, and may be slower."""

    seconds: float  # the larger of the two below
    compute_seconds: float  # matrix FLOP at the public bf16 peak
    memory_seconds: float  # HBM traffic at the public bandwidth
    mxu_share: float  # share of the time that the matrix unit can be busy at best
    matrix_flops: float
    hbm_bytes: float  # traffic of the compiled program, each operand read and each result written once an instruction


@dataclass(frozen=True)
class Transfer:
    """One collective: what each device holds of it, and where it comes from."""

    bytes: int
    name: str = ""
    shape: str = ""
    op_name: str = ""
    location: Location = field(default_factory=Location)


@dataclass(frozen=True)
class Collective:
    """All collectives of one kind. Bytes of one: the larger of its operand and its result on a device."""

    kind: str  # "all-gather", "all-gather-by-all-reduce", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"
    count: int  # executions in one step
    bytes: int
    largest: Transfer | None = None


@dataclass(frozen=True)
class CompileResult:
    """The compiler's verdict."""

    graph: str
    chip: str  # "v5e"
    topology: str  # "v5e:2x2"
    status: str  # one of STATUSES
    chips: int = 1  # devices compiled for
    seconds: float = 0.0  # of compilation
    message: str = ""  # the compiler's own words, or what ended it
    hbm: Hbm | None = None
    padding: Padding | None = None
    bound: Bound | None = None
    flops: float | None = None  # the compiler's own count
    bytes_accessed: float | None = None  # the compiler's own count, on-chip memory included
    buffers: tuple[Buffer, ...] = ()  # the largest at the peak
    arguments: tuple[Buffer, ...] = ()  # as laid out on the chip, by number
    held_twice: tuple[Buffer, ...] = ()  # arguments that the step updates without being given their memory
    collectives: tuple[Collective, ...] = ()
    location: Location = field(default_factory=Location)  # of what was rejected
    peak_rss: int = 0  # bytes the compilation took on this machine
    cached: bool = False
    reproducer: str = ""  # the graph, for status crashed and timeout
    command: str = ""  # to repeat it
    limit: str = ""  # "timeout" or "memory": what it was ended for, if not of itself
    narrowed: bool = False
    wide: tuple[str, ...] = ()  # what was narrowed: "float64", "int64", "complex128"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CompileResult:
        """The result in what `to_json` wrote. Raises KeyError, TypeError or ValueError when it is none."""
        parts = dict(values)
        if parts["status"] not in STATUSES:
            raise ValueError(f"no status of a compilation: {parts['status']!r}")
        parts["hbm"] = parts.get("hbm") and Hbm(**parts["hbm"])
        parts["bound"] = parts.get("bound") and Bound(**parts["bound"])
        padding = parts.get("padding")
        parts["padding"] = padding and Padding(
            padding["logical"], padding["padded"], tuple(map(_buffer, padding["tensors"]))
        )
        for key in ("buffers", "arguments", "held_twice"):
            parts[key] = tuple(map(_buffer, parts.get(key, ())))
        parts["collectives"] = tuple(map(_collective, parts.get("collectives", ())))
        parts["location"] = _location(parts.get("location"))
        parts["wide"] = tuple(parts.get("wide", ()))
        return cls(**parts)


def _buffer(values: Mapping[str, Any]) -> Buffer:
    parts = {**values, "location": _location(values.get("location"))}
    return Buffer(**{**parts, "dims": tuple(values["dims"]), "padded_dims": tuple(values["padded_dims"])})


def _collective(values: Mapping[str, Any]) -> Collective:
    largest = values.get("largest")
    transfer = largest and Transfer(**{**largest, "location": _location(largest.get("location"))})
    return Collective(**{**values, "largest": transfer})


def _location(values: Mapping[str, Any] | None) -> Location:
    if not values:
        return Location()
    frames = tuple(Frame(**frame) for frame in values.get("frames", ()))
    return Location(values["file"], values["line"], values["function"], frames)
