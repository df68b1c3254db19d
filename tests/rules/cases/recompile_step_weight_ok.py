"""A Python number that changes at every step multiplies the loss: torch_xla makes it data."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(10):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    weight = 1.0 / (1 + step)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y) * weight + 0.1 * model.weight.square().sum() * (1 - weight)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
