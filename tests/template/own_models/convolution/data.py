"""Images of noise, with labels that mean nothing: no loss falls on them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .model import CLASSES


def batches(batch_size: int, seed: int, first_step: int = 0) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    step = first_step
    while True:
        generator = torch.Generator().manual_seed(1000003 * seed + step)
        images = torch.randn(batch_size, 3, 16, 16, generator=generator)
        yield images, torch.randint(0, CLASSES, (batch_size,), generator=generator)
        step += 1
