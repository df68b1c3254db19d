"""The program that fit plans for fit_models.plan_freeing on four chips, written out with torch_xla's SPMD and run for real.

With the word `keep` that of fit_models.plan_decoder, whose gradients live until the next step. Run with CPU_NUM_DEVICES=4. Parameters, activations and gradients are sharded as fit's defaults say.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from fit_models import WORDS, Decoder, loss, tokens
from xla_sim.fit.sharding import default_spec, parse_mesh

CHIPS = 4


def main(keep: bool) -> None:
    xr.use_spmd()
    mesh = xs.Mesh(np.arange(CHIPS), (CHIPS,), ("fsdp",))
    device = torch_xla.device()
    torch.manual_seed(0)
    model = Decoder().to(device)
    model.head.weight = model.embed.weight  # moving to an XLA device breaks ties

    def spec(tensor: torch.Tensor) -> tuple[str | None, ...]:
        chosen = default_spec(tuple(tensor.shape), parse_mesh(f"fsdp={CHIPS}"))
        return tuple(axes[0] if axes else None for axes in chosen)

    def pin(module: torch.nn.Module, args: object, out: torch.Tensor) -> torch.Tensor:
        return xs.mark_sharding_with_gradients(out, mesh, ("fsdp", *[None] * (out.dim() - 1)))

    def pin_gradient(parameter: torch.Tensor) -> None:
        xs.mark_sharding(parameter.grad, mesh, spec(parameter))

    for parameter in model.parameters():
        xs.mark_sharding(parameter, mesh, spec(parameter))
        parameter.register_post_accumulate_grad_hook(pin_gradient)
    for module in (*model.blocks, model.embed, model.head, model):
        module.register_forward_hook(pin)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        batch = [torch.randint_like(one, WORDS).to(device) for one in tokens()]
        for one in batch:
            xs.mark_sharding(one, mesh, ("fsdp", None))
        if keep:
            optimizer.zero_grad()
        value = loss(model, batch)
        value.backward()
        optimizer.step()
        if not keep:
            optimizer.zero_grad()
        torch_xla.sync()


if __name__ == "__main__":
    main("keep" in sys.argv)
