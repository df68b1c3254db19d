"""What tracing a training step hands on: which HLO argument is what. Plain data, written to plan.json beside the graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


class FitError(Exception):
    """The question can't be answered as it was put; the message is a sentence for the user."""


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class NeedsValue(FitError):
    """The program read a value, which a step that is only planned doesn't have."""

    def __init__(self, operation: str, place: Place | None) -> None:
        super().__init__(f"{place or 'the step'}: {operation} reads a value")
        self.operation = operation
        self.place = place


@dataclass(frozen=True)
class Tensor:
    """A tensor that a chip holds between steps, or that the step takes in or gives out."""

    kind: str  # parameter, buffer, optimizer, gradient, base (of a gradient, in its shape), batch, scalar, loss or read
    name: str  # model.layers.0.weight; for optimizer state model.layers.0.weight/exp_avg
    shape: tuple[int, ...]
    dtype: str  # as torch calls it: bfloat16
    argument: int | None = None  # number of the HLO parameter; None when the step doesn't use the tensor
    output: int | None = None  # number of the HLO output that takes its place; its memory is donated

    @property
    def bytes(self) -> int:
        """Bytes of the whole tensor, unsharded and without padding."""
        return math.prod(self.shape) * BYTES.get(self.dtype, 4)


@dataclass(frozen=True)
class Plan:
    """One traced training step."""

    target: str  # package.module:function
    batch_size: int
    tensors: tuple[Tensor, ...]
    blocks: tuple[str, ...]  # the repeated modules, whose outputs are pinned to the batch axes
    layers: int  # how many repeated modules the whole model has; fewer blocks were traced when some were left out
    checkpointed: tuple[str, ...]  # the modules whose activations are computed again in the backward pass
    reads: Mapping[str, int] = field(default_factory=dict)  # lines of the optimizer that read values, with counts
    seconds: float = 0.0  # what tracing took
    stack: Mapping[str, str] = field(default_factory=dict)  # versions
    cuts: tuple[str, ...] = ()  # lines of torch_xla.sync() in the middle of the step
    leading: int = 0  # first dimension of the batch's tensors, where it isn't the batch size; 0: it is

    def is_divided(self, tensor: Tensor) -> bool:
        """Whether a tensor of the batch holds a row for each example, so that the batch axes divide it."""
        return bool(tensor.shape) and tensor.shape[0] == (self.leading or self.batch_size)

    def of(self, *kinds: str) -> list[Tensor]:
        """The tensors of these kinds."""
        return [tensor for tensor in self.tensors if tensor.kind in kinds]

    @property
    def parameters(self) -> int:
        """Number of parameters, tied ones counted once."""
        return sum(math.prod(tensor.shape) for tensor in self.of("parameter"))

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, **asdict(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Plan:
        known = {key: value for key, value in data.items() if key != "schema"}
        known["tensors"] = tuple(Tensor(**{**item, "shape": tuple(item["shape"])}) for item in data["tensors"])
        lists = {key: tuple(data.get(key, ())) for key in ("blocks", "checkpointed", "cuts")}
        return Plan(**{**known, **lists})
