"""Small models that fit is asked about. Functions named plan_… are what a user writes for `xla_sim fit`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

BATCH, SEQUENCE, WIDTH, WORDS = 16, 128, 256, 512


class Block(nn.Module):
    """Attention and a gated feed-forward part, as in Llama."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mask = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        scores = (q @ k.transpose(-1, -2) / 8 + mask).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(x.shape))
        gate, up = self.up(self.norms[1](x)).chunk(2, dim=-1)
        return x + self.dropout(self.down(F.silu(gate) * up))


class Decoder(nn.Module):
    """Token embedding, blocks, a tied head; `scale` is a buffer."""

    def __init__(self, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(layers))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tokens(batch_size: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (batch_size, SEQUENCE)
    return torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def plan_decoder(batch_size: int = BATCH) -> Any:
    model = Decoder()
    return model, torch.optim.AdamW(model.parameters()), tokens(batch_size), loss


def plan_freeing(batch_size: int = BATCH) -> Any:
    """A whole step of its own, which frees the gradients before it ends."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        value = loss(model, batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value

    model = Decoder()
    return model, torch.optim.AdamW(model.parameters()), tokens(batch_size), step


def plan_long(batch_size: int = 64) -> Any:
    """Sequences so long that the attention scores don't fit in a chip's on-chip memory."""
    model = Decoder(layers=1)
    batch = torch.zeros(batch_size, 1024, dtype=torch.long), torch.zeros(batch_size, 1024, dtype=torch.long)
    return model, torch.optim.AdamW(model.parameters()), batch, loss


def plan_deep(batch_size: int = BATCH) -> Any:
    model = Decoder(layers=6)
    return model, torch.optim.AdamW(model.parameters()), tokens(batch_size), loss


def plan_forward(batch_size: int = 16384) -> Any:
    """Six large matrices and no backward pass: on several chips six all-gathers and the sum of the loss, no more."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        with torch.no_grad():
            return model(batch).float().sum()

    model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(6))).to(torch.bfloat16)
    return (
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        torch.zeros(batch_size, 2048, dtype=torch.bfloat16),
        step,
    )


def plan_wide(batch_size: int = 1048576) -> Any:
    """Few parameters and many activations, quick to compile: the batch decides whether it fits."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.Tanh()) for _ in range(4)))
    return (
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        torch.zeros(batch_size, 2048),
        lambda model, x: model(x).square().mean(),
    )


def plan_with_dropout() -> Any:
    model = Decoder(dropout=0.1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), tokens(), loss


def plan_too_large() -> Any:
    """64 GiB of float32 parameters, gradients and state of Adam: 16 GiB for each of four chips, which have a little less."""
    model = nn.Sequential(*(nn.Linear(16384, 16384, bias=False) for _ in range(16)))
    return (
        model,
        torch.optim.Adam(model.parameters()),
        torch.zeros(32, 16384),
        lambda model, x: model(x).square().mean(),
    )


def plan_broken() -> Any:
    raise ValueError("no such size")


def plan_reading() -> Any:
    class Reading(Decoder):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = super().forward(tokens)
            if x.sum() > 0:  # here
                x = x * 2
            return x

    model = Reading()
    return model, torch.optim.AdamW(model.parameters()), tokens(), loss
