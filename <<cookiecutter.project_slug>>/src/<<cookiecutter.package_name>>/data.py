"""The data: ten noisy clusters in 128 dimensions, made from a seed, so that the loss has something to learn."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .model import CLASSES, FEATURES


def make_dataset(seed: int, examples: int = 4096) -> tuple[torch.Tensor, torch.Tensor]:
    """Make points around one centre per class.

    Returns float32 of shape (examples, FEATURES) and int64 labels of shape (examples,), both on the CPU.
    """
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=generator)
    labels = torch.randint(0, CLASSES, (examples,), generator=generator)
    points = centres[labels] + 2.0 * torch.randn(examples, FEATURES, generator=generator)
    return points, labels


def batches(
    dataset: tuple[torch.Tensor, torch.Tensor], batch_size: int, seed: int, first_step: int = 0
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches without end, in an order that depends on the seed and the step alone, so that training can resume.

    Each epoch is shuffled anew. What is left over when the batch size doesn't divide the data is dropped: a shorter
    batch would be a new shape, and XLA compiles a new graph for each.
    """
    points, labels = dataset
    per_epoch = len(points) // batch_size
    if per_epoch == 0:
        raise ValueError(f"The batch size is {batch_size}, but the data set has only {len(points)} examples.")
    step = first_step
    while True:
        epoch, position = divmod(step, per_epoch)
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed + epoch))
        for start in range(position * batch_size, per_epoch * batch_size, batch_size):
            chosen = order[start : start + batch_size]
            yield points[chosen], labels[chosen]
            step += 1
