"""A transformer over sequences of several lengths, padded. Its batch is a dictionary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, HEADS = 64, 32, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :])
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Tagger(nn.Module):
    """Takes token numbers and a mask of shape (batch, length), and gives logits of shape (batch, length, words)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.scale = nn.Parameter(torch.ones(()))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight  # shared

    def forward(self, tokens: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, real)
        return self.head(x * self.scale)


def build_model() -> nn.Module:
    return Tagger()


def build_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=learning_rate)


def compute_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """The mean over the tokens that are there: the padded ones count nothing."""
    logits = model(batch["tokens"], batch["real"])
    each = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), reduction="none")
    real = batch["real"].flatten()
    return torch.where(real, each, 0.0).sum() / real.sum()
