"""A small GPT-2 of Hugging Face, which brings its own loss, dropout and a weight that two layers share."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

WORDS = 256


def build_model() -> nn.Module:
    """With attention in eager mode: with sdpa transformers reads the mask at every step to see if it is needed."""
    sizes = {"vocab_size": WORDS, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}
    words = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **words, use_cache=False, attn_implementation="eager"))


def build_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=learning_rate)


def compute_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return model(**batch).loss
