"""What `fit` says beside its figures: how the plan differs from a plain program, and what to change when it doesn't fit."""

from __future__ import annotations

import os

from xla_sim.fit.plan import NeedsValue
from xla_sim.fit.question import Answer
from xla_sim.verdict.traffic import GATHERED

_CHECKPOINT = "torch_xla.utils.checkpoint.checkpoint"
_META = (
    'the function runs under torch.device("meta"), where tensors have a shape and no values: leave out .to(device), .cuda(), '
    ".item() and loading weights, fit needs none of them"
)
_CLOSE = 0.05  # share of HBM below which a program's code may decide
_MASKS = os.path.join("transformers", "masking_utils.py")
# words of a traceback, and what they mean here
_KNOWN = (
    (
        ("torch/utils/checkpoint.py", "xla"),
        f"torch.utils.checkpoint doesn't know XLA devices, on a TPU neither: use {_CHECKPOINT}, or give fit --checkpoint blocks",
    ),
    (("meta tensor",), _META),
    (("fused=True", "xla"), "there is no fused optimizer for XLA: leave out fused=True"),
    (("NVIDIA",), _META),
    (("not compiled with CUDA",), _META),
)


# Cloud TPU's name of a slice (how it begins, and units a chip: v4 and v5p count cores) and its TPU VM image, as in
# https://cloud.google.com/tpu/docs/supported-tpu-configurations and https://cloud.google.com/tpu/docs/runtimes
_CLOUD = {
    "v4": ("v4", 2, "tpu-ubuntu2204-base"),
    "v5e": ("v5litepod", 1, "v2-alpha-tpuv5-lite"),
    "v5p": ("v5p", 2, "v2-alpha-tpuv5"),
    "v6e": ("v6e", 1, "v2-alpha-tpuv6e"),
}


def hardware(given: Answer) -> dict[str, str] | None:
    """What to ask Google Cloud for: accelerator type, TPU VM image and train.py's --mesh; None where TPU VMs aren't offered."""
    topology = given.question.topology
    if topology.chip.name not in _CLOUD:
        return None
    begins, units, runtime = _CLOUD[topology.chip.name]
    return {
        "accelerator": f"{begins}-{topology.chips * units}",
        "runtime": runtime,
        "mesh": str(given.question.mesh),
    }


def notes(given: Answer) -> list[str]:
    """Assumptions first, then the levers when it doesn't fit; each a sentence."""
    plan = given.question.plan
    said = []
    if len(plan.blocks) < plan.layers:
        said.append(f"traced with {len(plan.blocks)} of {plan.layers} layers")
    if not given.question.code and given.result.status == "ok":
        said.append(_without_code(given))
    if plan.checkpointed:
        said.append(
            f"{_many(plan.checkpointed)} keep no activations and gather their weights again in the backward pass: "
            f"in training wrap each in {_CHECKPOINT}, with its parameters behind xm.optimization_barrier_"
        )
    for place, count in plan.reads.items():
        cuts = f"the optimizer reads {count} values in a step ({_short(place)}), each of which cuts the real step and waits"
        said.append(f"{cuts}; planned as one graph")
    if plan.cuts:
        said.append(
            f"torch_xla.sync() in the middle of the step ({', '.join(map(_short, plan.cuts))}) cuts the real one; planned as one graph"
        )
    spared = [one.name for one in plan.of("batch") if one.shape and not plan.is_divided(one)]
    if spared:
        rows = plan.leading or plan.batch_size
        said.append(f"whole on each chip: {', '.join(spared)} of the batch, whose first dimension isn't {rows}")
    if plan.of("gradient"):
        said.append(
            "the gradients outlive the step, with the tensors that they are views of: optimizer.zero_grad() before "
            + "torch_xla.sync() frees both"
        )
    if given.whole:
        said.append(f"{_many(given.whole)} stay whole on each chip: the mesh divides none of their dimensions")
    padded = sum(one.count for one in given.result.collectives if one.kind == GATHERED)
    if padded:
        said.append(
            f"{padded} of the gathers add up shards that are padded with zeros, which moves twice the bytes of a gather"
        )
    if given.result.collectives and given.result.bound is not None:
        said.append(
            "the bound on a step's time is that of the chip's arithmetic and HBM alone: exchanging takes time as well"
        )
    bare, held = given.elements.get("parameters", 0), given.parts["parameters"]
    if bare and held > 1.01 * bare:
        said.append(
            f"the tiles of HBM make the parameters {held / bare - 1:.1%} larger than their elements: each chip's share of a "
            "dimension isn't a multiple of the tile"
        )
    if given.result.status == "ok" and hardware(given) is None:
        said.append(
            f"launch/ has no recipe for {given.question.topology.chip.name}: Google Cloud offers it through GKE and Compute Engine, "
            "see https://docs.cloud.google.com/tpu/docs/tpu7x"
        )
    return said + (levers(given) if given.result.status == "oom" or given.total > given.capacity else [])


def _without_code(given: Answer) -> str:
    left = given.capacity - given.total
    room = (
        f"{_gib(left)} are left for them" if left > given.capacity * _CLOSE else f"only {_gib(left)} are left for them"
    )
    return f"code was not generated: its bytes aren't in the total ({room}), and a kernel that can't be generated isn't known yet; --code tells"


def verdict(given: Answer) -> str:
    """In a few words, for one line of a search."""
    result = given.result
    if result.status not in ("ok", "oom"):
        words = {"rejected": "refused", "crashed": "no verdict", "timeout": "no verdict"}[result.status]
        return f"{words} ({result.message.splitlines()[0] if result.message else result.status})"
    answer = "fits" if result.status == "ok" and given.total <= given.capacity else "too big"
    return f"{answer}, {given.total / 2**30:.2f} of {_gib(given.capacity)} a chip" if result.hbm else answer


def levers(given: Answer) -> list[str]:
    """What would save most, the largest saving first."""
    parts, plan = given.parts, given.question.plan
    found = []
    recomputable = parts["weights"] + parts["activations"]
    if not plan.checkpointed and recomputable:
        waiting = f"{_gib(parts['activations'])} are activations and {_gib(parts['weights'])} gathered weights"
        advice = "wait for the backward pass: try --checkpoint blocks, which computes and gathers them again"
        found.append((recomputable, f"{waiting} that {advice}"))
    if parts["activations"] and plan.batch_size > given.question.mesh.ways(given.question.mesh.batch_axes):
        found.append((parts["activations"] // 2, f"a batch of {plan.batch_size // 2} would halve the activations"))
    held = parts["parameters"] + parts["optimizer"] + parts["gradients"]
    if held > given.capacity // 4:
        advice = "twice the chips hold half of that each"
        found.append((held // 2, f"{_gib(held)} are parameters, gradients and optimizer state: {advice}"))
    if parts["gradients"] > given.capacity // 20:
        advice = "optimizer.zero_grad() before torch_xla.sync() frees them"
        found.append((parts["gradients"], f"{_gib(parts['gradients'])} are gradients that outlive the step: {advice}"))
    return [sentence for _, sentence in sorted(found, reverse=True)]


def explain(traceback: str) -> str:
    """A sentence on an error of the user's function that comes from how fit runs it; empty for all others."""
    return next((sentence for words, sentence in _KNOWN if all(word in traceback for word in words)), "")


def refusal(error: NeedsValue) -> tuple[str, str]:
    """Message and fix for a step that reads a value."""
    where = {
        "_local_scalar_dense": "this line needs the value of a tensor, as item(), float(), print or an if do",
        "index": "indexing with a mask makes a shape that depends on values",
        "nonzero": "nonzero() makes a shape that depends on values",
        "masked_select": "masked_select() makes a shape that depends on values",
    }.get(error.operation, f"{error.operation.lstrip('_')} needs a value in the middle of the step")
    fix = "decide on the device with torch.where, or move the read out of the step"
    if error.place is not None and error.place.file.endswith(_MASKS):
        fix = (
            "transformers looks whether anything is masked: leave attention_mask out of the batch when nothing is, or give it "
            "with four dimensions, as (batch, 1, length, length), which it takes as it is"
        )
    return (
        f"{where}, and a step that is only planned has none",
        f"{fix}; on a TPU this line would cut the graph and wait",
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def _many(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} modules or parameters ({names[0]} … {names[-1]})"


def _short(place: str) -> str:
    return os.sep.join(place.split(os.sep)[-3:])
