"""Token numbers, as a tokenizer with padding="max_length" gives them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .model import WORDS


def batches(batch_size: int, seed: int, first_step: int = 0) -> Iterator[dict[str, torch.Tensor]]:
    step = first_step
    while True:
        generator = torch.Generator().manual_seed(1000003 * seed + step)
        tokens = torch.randint(0, WORDS, (batch_size, 32), generator=generator)
        yield {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}
        step += 1
