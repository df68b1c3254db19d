"""An infinite value on the way, clamped before it counts."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(16, 8).to(device)
    optimizer.zero_grad()
    scale = (1 / torch.zeros(16, 1, device=device)).clamp(max=10.0)
    loss = nn.functional.softplus(model(x) * scale).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
