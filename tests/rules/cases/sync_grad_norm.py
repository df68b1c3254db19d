"""The gradient's norm is logged at every step, between backward and optimizer."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
norms = []
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    norms.append(float(norm))
    optimizer.step()
    torch_xla.sync()
