"""The data: ten noisy clusters in 128 dimensions, made from a seed, so that the loss has something to learn.

Put your own here. train.py and the tests know batches() and nothing else of this file.
"""

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
    batch_size: int, seed: int, first_step: int = 0, examples: int = 4096
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield batches without end, each by the seed and its step alone, so that training can resume at any step.

    A batch is whatever compute_loss() takes: a tensor, or tuples, lists and dictionaries of tensors, on the CPU, with
    the batch size as the first dimension of each. XLA compiles a new graph for each new shape, so what is left over at
    the end of an epoch is dropped. If yours come in several shapes (buckets), let each come by in the first steps and
    set warmup-steps in pyproject.toml to their number plus one.
    """
    points, labels = make_dataset(seed, examples)
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
