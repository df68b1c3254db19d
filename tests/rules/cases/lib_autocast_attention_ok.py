"""A small transformer under bfloat16 autocast, with a causal mask and where() instead of boolean indexing."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.register_buffer("mask", torch.ones(16, 16, dtype=torch.bool).tril())

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


device = torch_xla.device()
embedding, block, head = nn.Embedding(32, 16).to(device), Block(16, 2).to(device), nn.Linear(16, 32).to(device)
parameters = [*embedding.parameters(), *block.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=3e-4)
for step in range(6):
    tokens = torch.randint(0, 32, (8, 16)).to(device)
    valid = torch.rand(8, 16).to(device) > 0.2
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("xla", dtype=torch.bfloat16):
        logits = head(block(embedding(tokens)))
    losses = F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none").view(8, 16)
    loss = torch.where(valid, losses, 0.0).sum() / valid.sum().clamp(min=1)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    torch_xla.sync()
