"""Llama-shaped models for `xla_sim fit`, built from a config on the meta device."""

from __future__ import annotations

from typing import Any

import torch

# width, feed-forward width, layers, heads, heads of keys and values
SHAPES = {
    "1.3B": (2048, 5504, 24, 16, 16),
    "7B": (4096, 11008, 32, 32, 32),
    "70B": (8192, 28672, 80, 64, 8),
}
LENGTH = 1024


def _plan(size: str, batch_size: int) -> tuple[Any, ...]:
    from transformers import LlamaConfig, LlamaForCausalLM

    width, hidden, layers, heads, shared = SHAPES[size]
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        max_position_embeddings=LENGTH,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    ids = torch.empty(batch_size, LENGTH, dtype=torch.long)
    return model, torch.optim.AdamW(model.parameters()), {"input_ids": ids, "labels": ids.clone()}


def llama_1b(batch_size: int = 16) -> tuple[Any, ...]:
    return _plan("1.3B", batch_size)


def llama_7b(batch_size: int = 64) -> tuple[Any, ...]:
    return _plan("7B", batch_size)


def llama_70b(batch_size: int = 64) -> tuple[Any, ...]:
    return _plan("70B", batch_size)
