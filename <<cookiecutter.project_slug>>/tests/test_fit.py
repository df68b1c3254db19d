"""Can a full-size model be planned? A Llama-style decoder, as an example of what `python -m xla_sim fit` takes:

python -m xla_sim fit tests.test_fit:llama_7b --topology v5e:8x8 --checkpoint blocks
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

fit_trace = pytest.importorskip("xla_sim.fit.tracing")
if fit_trace.needs():
    pytest.skip(fit_trace.needs(), allow_module_level=True)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = Norm(width), Norm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (
            nn.Linear(*shape, bias=False) for shape in ((width, hidden), (width, hidden), (hidden, width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        normed = self.attention_norm(x)
        q, k, v = (
            part(normed).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(attended.transpose(1, 2).reshape(batch, length, width))
        normed = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    """Takes token numbers of shape (batch, length) and gives logits of shape (batch, length, words)."""

    def __init__(self, words: int, width: int, heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def plan(model: nn.Module, batch_size: int, length: int) -> tuple[Any, ...]:
    """What a function for `fit` returns: model, optimizer, a batch's shapes, the loss. All of it on the meta device."""
    model = model.to(torch.bfloat16)
    batch = (torch.empty(batch_size, length, dtype=torch.long), torch.empty(batch_size, length, dtype=torch.long))

    def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    return model, torch.optim.AdamW(model.parameters()), batch, loss


def llama_7b(batch_size: int = 64) -> tuple[Any, ...]:
    return plan(Decoder(words=32000, width=4096, heads=32, hidden=11008, layers=32), batch_size, length=1024)


def llama_tiny(batch_size: int = 8) -> tuple[Any, ...]:
    return plan(Decoder(words=64, width=32, heads=4, hidden=64, layers=2), batch_size, length=16)


def test_a_decoder_can_be_planned() -> None:
    planned, graph = fit_trace.trace(llama_tiny, "tests.test_fit:llama_tiny", batch_size=16)
    assert planned.batch_size == 16
    assert planned.blocks == ("layers.0", "layers.1")
    assert graph


def test_seven_billion_parameters_take_no_memory() -> None:
    planned, _ = fit_trace.trace(llama_7b, "tests.test_fit:llama_7b", layers=2)
    assert planned.layers == 32
    assert planned.parameters == 2 * 32000 * 4096 + 2 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 4096
