"""Sequences in three lengths, one after the other: with warmup-steps = 4 all graphs are there in time."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .model import WORDS

BUCKETS = (64, 16, 32)


def batches(batch_size: int, seed: int, first_step: int = 0) -> Iterator[dict[str, torch.Tensor]]:
    step = first_step
    while True:
        generator = torch.Generator().manual_seed(1000003 * seed + step)
        bucket = BUCKETS[step % len(BUCKETS)]
        tokens = torch.randint(0, WORDS, (batch_size, bucket), generator=generator)
        lengths = torch.randint(bucket // 2, bucket + 1, (batch_size, 1), generator=generator)
        real = torch.arange(bucket).expand(batch_size, bucket) < lengths
        yield {"tokens": tokens, "targets": (tokens + 1) % WORDS, "real": real}
        step += 1
