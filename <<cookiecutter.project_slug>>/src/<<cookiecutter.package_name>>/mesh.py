"""One model on many chips: torch_xla's SPMD, with the weights shared out over the chips as FSDP does.

Every chip holds a part of each weight and of each batch; XLA gathers and exchanges what a step needs. Any machine can pretend
to have the chips: PJRT_DEVICE=CPU CPU_NUM_DEVICES=8.
"""

from __future__ import annotations

import argparse
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .tensors import map_tensors


def axes(text: str) -> dict[str, int]:
    """Read `fsdp=8` or `data=2,fsdp=4`: copies of the model, and chips that share each copy's weights."""
    found = dict(part.partition("=")[::2] for part in text.split(","))
    if (
        not set(found) <= {"data", "fsdp"}
        or "fsdp" not in found
        or not all(size.isdigit() and int(size) for size in found.values())
    ):
        raise argparse.ArgumentTypeError(f"{text!r} is no mesh; write fsdp=8, or data=2,fsdp=4")
    return {name: int(size) for name, size in found.items()}


def open_mesh(sizes: dict[str, int]) -> Any:
    """Switch to SPMD, before anything else uses XLA, and arrange all chips of all hosts in a mesh."""
    import numpy as np
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    xr.use_spmd()
    if xr.process_count() > 1:  # the hosts agree on checkpoints over the network
        import torch_xla.distributed.xla_backend  # noqa: F401  it knows xla://

        torch.distributed.init_process_group("gloo", init_method="xla://")
    chips = xr.global_runtime_device_count()
    if math.prod(sizes.values()) != chips:
        wanted = ",".join(f"{name}={size}" for name, size in sizes.items())
        raise SystemExit(f"--mesh {wanted} is {math.prod(sizes.values())} chips, and there are {chips}.")
    return xs.Mesh(np.arange(chips), tuple(sizes.values()), tuple(sizes))


def shard(model: nn.Module, mesh: Any) -> nn.Module:
    """Share out the model's weights, and its gradients in the same way."""
    import torch_xla.distributed.spmd as xs
    from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

    def share_gradient(parameter: torch.Tensor) -> None:
        if parameter.dim() == 0:
            return
        largest = parameter.shape.index(max(parameter.shape))  # the dimension that FSDP divides
        spec = tuple("fsdp" if i == largest else None for i in range(parameter.dim()))
        xs.mark_sharding(parameter.grad, mesh, spec)

    def share_rows(output: torch.Tensor) -> None:
        if output.dim() > 1:
            xs.mark_sharding(output, mesh, (mesh.axis_names, *[None] * (output.dim() - 1)))

    def share_output(output: Any, mesh: Any) -> None:  # a tensor, or what Hugging Face's models return
        map_tensors(share_rows, output)

    wrapped = SpmdFullyShardedDataParallel(model, mesh=mesh, shard_output=share_output)
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(share_gradient)
    return wrapped


def to_chips(tensor: torch.Tensor, mesh: Any) -> torch.Tensor:
    """Put a batch on the chips. It is the whole batch on each host, which hands on only the rows of its own chips."""
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    if tensor.dim() == 0:
        return tensor.to(torch_xla.device())
    rows = len(tensor) // xr.process_count()
    mine = tensor[xr.process_index() * rows : (xr.process_index() + 1) * rows]
    spec = xs.ShardingSpec(mesh, (mesh.axis_names, *[None] * (tensor.dim() - 1)), minibatch=True)
    placed: torch.Tensor = xm.send_cpu_data_to_device([mine], torch_xla.device(), spec)[0]
    return placed


def save(path: Path, state: dict[str, Any]) -> None:
    """Write the checkpoint as a folder to which each host adds the parts on its chips; an older one stays until it is whole."""
    import torch.distributed.checkpoint as dcp
    import torch_xla.runtime as xr
    from torch_xla.experimental.distributed_checkpoint import SPMDSavePlanner

    new = path.with_name(f"{path.name}.{state['step']}.new")
    dcp.save(state, storage_writer=dcp.FileSystemWriter(new), planner=SPMDSavePlanner())
    if xr.process_index() == 0:
        shutil.rmtree(path, ignore_errors=True)
        new.rename(path)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Read a checkpoint into a model on this mesh, whatever mesh wrote it, and return all that it holds."""
    import torch.distributed.checkpoint as dcp
    from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner, prime_optimizer

    prime_optimizer(optimizer)  # its state must exist to be read into
    state: dict[str, Any] = {"step": 0, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    state["rng"] = {"cpu": torch.get_rng_state(), "xla": 0}
    dcp.load(state, storage_reader=dcp.FileSystemReader(path), planner=SPMDLoadPlanner())
    return state
