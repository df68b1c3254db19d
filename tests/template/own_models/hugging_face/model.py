"""A small GPT-2 of Hugging Face, which brings its own loss, dropout and a weight that two layers share."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

WORDS = 256


def build_model() -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=64, n_layer=2, n_head=4, use_cache=False)
    )


def build_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=learning_rate)


def compute_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return model(**batch).loss
