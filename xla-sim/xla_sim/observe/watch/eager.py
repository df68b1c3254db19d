"""``--compare-eager``: the model's forward and backward pass on XLA and in eager PyTorch, module by module.

The comparison happens once the program has ended, so that it can't disturb what is observed: with the inputs of the
first training step and the parameters as they are by then, the same in both. A model whose training mode draws random
numbers (dropout) is compared in evaluation mode, because the two devices draw different ones.

What rounding explains is measured where it can be: eager PyTorch's own distance from the same computation in float64.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

from xla_sim.observe import frames
from xla_sim.observe.recorder import Recorder

# Smallest difference, relative to the largest value of the tensor, that is told: float32 sums of some thousand terms in
# another order reach 1e-5; bfloat16 has 8 bits of precision (2**-8 = 4e-3) and float16 has 11 (5e-4), and a few roundings
# add up. Integers and booleans have to agree.
TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3}
ROUNDING = 4  # times eager's distance from float64 that XLA may be from eager: a deep or ill-conditioned model
# A gradient that is zero but for rounding (of a bias before batch norm) has no size of its own to be compared with.
OF_LARGEST_GRADIENT = 0.1
GRADIENT = "gradient"
Outputs = list[tuple[str, str, torch.Tensor]]  # module, its type, output; in the order in which they were computed


class EagerComparison:
    """Remembers the first training call of an outermost module, and compares at the end."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._call: tuple[torch.nn.Module, Any, Any, torch.dtype | None, int] | None = None
        self._device: torch.device | None = None
        self._modes: dict[torch.nn.Module, bool] = {}  # training or not, as at the call

    def install(self) -> None:
        call = torch.nn.Module.__call__

        def remembering_call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._call is None and module.training and torch.is_grad_enabled() and _on_xla(module):
                autocast = torch.get_autocast_dtype("xla") if torch.is_autocast_enabled("xla") else None
                where = self.recorder.frames(frames.caller())
                self._call = (module, _map(_alias, args), _map(_alias, kwargs), autocast, where)
                self._device = next(module.parameters()).device
                self._modes = {child: child.training for child in module.modules()}
            return call(module, *args, **kwargs)

        torch.nn.Module.__call__ = remembering_call

    def finish(self) -> None:
        """Compare, and write down the first module that differs, or why nothing could be compared."""
        if self._call is None:
            self._tell("compared", "no module on the XLA device was called with gradients", -1)
            return
        module, args, kwargs, autocast, where = self._call
        try:
            found, count = self._compare(module, args, kwargs, autocast)
        except Exception as error:  # noqa: BLE001 (the user's module may raise anything outside its program)
            reason = traceback.format_exception_only(type(error), error)[-1].strip()
            self._tell("compared", f"the model can't be run once more on its own: {reason}", where)
            return
        if found is not None:
            self.recorder.emit("fact", name="mismatch", step=1, at=where, values=found)
        self.recorder.emit("fact", name="compared", step=1, at=where, values={"outputs": count})

    def _tell(self, name: str, reason: str, where: int) -> None:
        self.recorder.emit("fact", name=name, step=0, at=where, values={"outputs": 0, "reason": reason})

    def _compare(
        self, module: torch.nn.Module, args: Any, kwargs: Any, autocast: torch.dtype | None
    ) -> tuple[dict[str, Any] | None, int]:
        for child, mode in self._modes.items():
            child.training = mode  # the program may have ended in evaluation, and with the model on another device
        host_args, host_kwargs = _map(_to_host, args), _map(_to_host, kwargs)

        def on(device: torch.device | str) -> torch.nn.Module:
            return copy.deepcopy(module).to(device)

        def on_host() -> Outputs:
            return _run(on("cpu"), host_args, host_kwargs, "cpu", autocast)

        eager = on_host()
        if any(not torch.equal(a, b) for (_, _, a), (_, _, b) in zip(eager, on_host())):
            module.eval()
            eager = on_host()
        xla = _run(on(self._device or "xla"), args, kwargs, "xla", autocast)
        if [name for name, _, _ in xla] != [name for name, _, _ in eager]:
            raise RuntimeError("it calls other modules on XLA than on the CPU")
        apart, rounding = distances(xla, eager), self._rounding(on("cpu"), host_args, host_kwargs, eager)
        for (name, kind, _), (_, _, b), found, rounded in zip(xla, eager, apart, rounding):
            tolerance = max(TOLERANCES.get(autocast or b.dtype, 0.0), ROUNDING * rounded)
            if found > tolerance:
                values = {"module": name, "type": kind, "difference": found, "tolerance": tolerance}
                return {**values, "dtype": str(b.dtype), "shape": list(b.shape)}, len(eager)
        return None, len(eager)

    def _rounding(self, module: torch.nn.Module, args: Any, kwargs: Any, eager: Outputs) -> list[float]:
        """Distance of each output from the same one in float64; 0 where the model can't be run in float64."""
        unknown = [0.0] * len(eager)
        try:
            exact = _run(module.double(), _map(_double, args), _map(_double, kwargs), "cpu", None)
        except Exception:  # noqa: BLE001 (the model may ask for float32 by name, and then any operation may refuse)
            return unknown
        same = [name for name, _, _ in exact] == [name for name, _, _ in eager]
        return [d if d < float("inf") else 0.0 for d in distances(eager, exact)] if same else unknown


def distances(found: Outputs, wanted: Outputs) -> list[float]:
    """`difference` of each pair, those of gradients relative to no less than a share of the largest gradient."""
    sizes = [float(t.abs().max()) for _, kind, t in wanted if kind == GRADIENT and t.numel()]
    floor = OF_LARGEST_GRADIENT * max((size for size in sizes if size < float("inf")), default=0.0)
    return [difference(a, b, floor if kind == GRADIENT else 0.0) for (_, kind, a), (_, _, b) in zip(found, wanted)]


def difference(a: torch.Tensor, b: torch.Tensor, floor: float = 0.0) -> float:
    """The largest difference between two tensors of the host, relative to the largest value of ``b`` or to ``floor``.

    Places where both are NaN or the same infinity agree; infinity where only one is.
    """
    if a.shape != b.shape:
        return float("inf")
    if not b.numel():
        return 0.0
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if not bool((same | (a.isfinite() & b.isfinite())).all()):
        return float("inf")
    apart = torch.where(same, torch.zeros_like(a), (a - b).abs()).max()
    scale = torch.where(b.isfinite(), b.abs(), torch.zeros_like(b)).max().clamp(min=max(floor, 1e-6))
    return float(apart / scale)


def _run(module: torch.nn.Module, args: Any, kwargs: Any, device: str, autocast: torch.dtype | None) -> Outputs:
    """Outputs of each module in a forward pass, then the gradient of each parameter, as tensors of the host."""
    outputs: Outputs = []
    names = {child: name for name, child in module.named_modules()}

    def keep(child: torch.nn.Module, _: Any, output: Any) -> None:
        outputs.extend((names[child], type(child).__name__, t) for t in _tensors(output))

    handles = [child.register_forward_hook(keep) for child in names]
    context: Any = torch.autocast(device, dtype=autocast) if autocast else contextlib.nullcontext()
    with torch.enable_grad(), context:
        result = module(*args, **kwargs)
        total = sum((_weighed(t) for t in _tensors(result) if t.requires_grad), torch.zeros(()))
    for handle in handles:
        handle.remove()
    if isinstance(total, torch.Tensor) and total.requires_grad:
        module.zero_grad()
        total.backward()
        for name, parameter in reversed(list(module.named_parameters())):
            if parameter.grad is not None:
                outputs.append((name, GRADIENT, parameter.grad))
    if device == "xla":  # one graph instead of one a tensor
        torch_xla = importlib.import_module("torch_xla")
        torch_xla._XLAC._xla_sync_multi([tensor for _, _, tensor in outputs], [], True, True)
    return [(name, kind, tensor.detach().to("cpu")) for name, kind, tensor in outputs]


def _weighed(output: torch.Tensor) -> torch.Tensor:
    """A scalar whose gradient differs from place to place: the mean of normalized values has none."""
    places = torch.arange(output.numel(), dtype=torch.float64)
    weights = places.cos().reshape(output.shape).to(output.device, output.dtype)
    return (output * weights).mean()


def _on_xla(module: torch.nn.Module) -> bool:
    parameter = next(module.parameters(), None)
    return parameter is not None and parameter.device.type == "xla"


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach()


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu")


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _map(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """``function`` of every tensor in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: _map(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_map(function, item) for item in value)
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):  # Hugging Face's outputs are dicts too
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
