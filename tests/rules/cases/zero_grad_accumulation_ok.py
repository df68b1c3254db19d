"""Gradient accumulation over four micro-batches, one mark per optimizer step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
optimizer.zero_grad()
for micro in range(24):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    loss = nn.functional.cross_entropy(model(x), y) / 4
    loss.backward()
    if (micro + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
