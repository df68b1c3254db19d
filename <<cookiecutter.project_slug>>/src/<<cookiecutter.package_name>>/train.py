"""Train the model, on whatever is there.

    python -m << cookiecutter.package_name >>.train                          XLA: PJRT_DEVICE=CPU here, PJRT_DEVICE=TPU on a TPU VM
    python -m << cookiecutter.package_name >>.train --device cpu             eager PyTorch, without torch_xla
    python -m << cookiecutter.package_name >>.train --checkpoint last.pt     save at the end
    python -m << cookiecutter.package_name >>.train --resume last.pt         go on from there, bit for bit
    python -m << cookiecutter.package_name >>.train --mesh fsdp=8            on eight chips (here: with CPU_NUM_DEVICES=8)

On XLA nothing runs while a step is written down: PyTorch records it, and torch_xla.sync() compiles the record (once per
shape) and runs it. Whatever reads a value before that (print, .item(), an `if` on a tensor) cuts the step in two.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from << cookiecutter.package_name >> import mesh as chips
from << cookiecutter.package_name >>.data import batches
from << cookiecutter.package_name >>.model import build_model, build_optimizer, compute_loss
from << cookiecutter.package_name >>.tensors import map_tensors


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the model on XLA, or in eager PyTorch.")
    parser.add_argument("--steps", type=int, default=200, help="train until this step (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="a multiple of 8 suits a TPU (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of the optimizer (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, data and order (default: %(default)s)")
    parser.add_argument("--bf16", action="store_true", help="run the matrix products in bfloat16")
    parser.add_argument("--device", choices=["xla", "cpu"], default="xla", help="XLA or eager PyTorch")
    parser.add_argument("--mesh", type=chips.axes, help="share the work out over chips: fsdp=8, or data=2,fsdp=4")
    parser.add_argument("--log-every", type=int, default=10, help="steps between two losses (default: %(default)s)")
    parser.add_argument("--checkpoint", type=Path, help="save here when done")
    parser.add_argument("--resume", type=Path, help="go on from this checkpoint")
    args = parser.parse_args(argv)
    for name in ("steps", "batch_size", "log_every"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is {getattr(args, name)}, and has to be 1 or more")
    if args.resume is not None and not args.resume.exists():
        parser.error(f"--resume {args.resume}: there is no such file")
    if args.mesh is not None:
        if args.device == "cpu":
            parser.error("--mesh needs XLA, so it can't go with --device cpu")
        if args.batch_size % math.prod(args.mesh.values()):
            parser.error(f"--batch-size {args.batch_size} can't be divided over {math.prod(args.mesh.values())} chips")
    elif args.resume is not None and args.resume.is_dir():
        parser.error(f"--resume {args.resume} is a folder, which --mesh wrote: give --mesh too")
    return args


def open_device(name: str) -> tuple[torch.device, Callable[[], None]]:
    """Return the device and the step mark: what ends a step there."""
    if name == "cpu":
        return torch.device("cpu"), lambda: None
    import torch_xla

    return torch_xla.device(), torch_xla.sync


def move(model: nn.Module, device: torch.device) -> nn.Module:
    """Put the model on the device. On XLA .to() copies a shared weight for each of its users: share them again."""
    users: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), []).append(name)
    model.to(device)
    for first, *others in users.values():
        for name in others:
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, model.get_parameter(first))
    return model


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any, bf16: bool = False) -> torch.Tensor:
    """Record one step, from the gradients' clearing to the weights' update, and return its loss, unread."""
    optimizer.zero_grad()
    with torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16, enabled=bf16):
        loss = compute_loss(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def save(
    path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, mesh: Any = None
) -> None:
    """Write the checkpoint beside its place and rename it, so that a crash leaves the old one or the new one whole."""
    state: dict[str, Any] = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    state["rng"] = {"cpu": torch.get_rng_state(), device.type: device_rng(device)}
    path.parent.mkdir(parents=True, exist_ok=True)
    if mesh is not None:
        chips.save(path, state)
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".tmp", delete=False) as file:
        try:
            torch.save(map_tensors(lambda tensor: tensor.detach().cpu(), state), file)  # any machine can load that
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def device_rng(device: torch.device, new_state: Any = None) -> Any:
    """Get, or set, the state of the device's random numbers (dropout draws from them)."""
    if device.type == "cpu":
        return torch.get_rng_state() if new_state is None else torch.set_rng_state(new_state)
    import torch_xla.core.xla_model as xm

    return xm.get_rng_state() if new_state is None else xm.set_rng_state(new_state)


def announce(device: torch.device, args: argparse.Namespace, first_step: int) -> None:
    """Say what will compute what."""
    where = f"{device}, eager PyTorch"
    if device.type == "xla":
        import torch_xla.runtime as xr

        count = xr.global_runtime_device_count() if args.mesh else 1
        where = f"{device if count == 1 else f'{count} chips'} (PJRT_DEVICE={xr.device_type()})"
    print(f"training on {where}, steps {first_step + 1} to {args.steps}, batches of {args.batch_size}", flush=True)


def report(step: int, steps: int, loss: float) -> None:
    """Show a bar on a terminal, a line per loss elsewhere."""
    if not sys.stdout.isatty():
        print(f"step {step}/{steps}  loss {loss:.4f}", flush=True)
        return
    done = 30 * step // steps
    print(
        f"\r{'━' * done}{'─' * (30 - done)} {step}/{steps}  loss {loss:.4f}",
        end="\n" if step == steps else "",
        flush=True,
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train as the command line says, and return the last loss."""
    args = parse_arguments(argv)
    mesh = None if args.mesh is None else chips.open_mesh(args.mesh)
    device, mark_step = open_device(args.device)

    torch.manual_seed(args.seed)
    device_rng(device, torch.get_rng_state() if args.device == "cpu" else args.seed)
    model = move(build_model(), device)  # first the device, then the optimizer: it must hold what is trained
    network = model if mesh is None else chips.shard(model, mesh)
    optimizer = build_optimizer(model, args.learning_rate)
    first_step = 0
    if args.resume is not None:
        if args.resume.is_dir():
            state = chips.load(args.resume, model, optimizer)
        else:
            state = torch.load(args.resume, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"]["cpu"])
        if device.type in state["rng"]:  # not when the checkpoint comes from another kind of device
            device_rng(device, state["rng"][device.type])
        first_step = state["step"]
        if first_step >= args.steps:
            sys.exit(f"{args.resume} is at step {first_step} already: give --steps more than that.")

    def place(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device) if mesh is None else chips.to_chips(tensor, mesh)

    announce(device, args, first_step)
    data = batches(args.batch_size, args.seed, first_step)
    loss_value = float("nan")
    for step in range(first_step + 1, args.steps + 1):
        batch = map_tensors(place, next(data))
        loss = train_step(network, optimizer, batch, args.bf16)
        mark_step()
        if step % args.log_every == 0 or step == args.steps:
            loss_value = loss.item()  # after the step mark: the value is there, and no graph is cut
            report(step, args.steps, loss_value)

    if args.checkpoint is not None:
        save(args.checkpoint, args.steps, model, optimizer, device, mesh)
        print(f"saved {args.checkpoint}")
    return loss_value


if __name__ == "__main__":
    main()
