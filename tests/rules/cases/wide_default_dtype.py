"""The default dtype is double for the whole program."""

import torch
import torch.nn as nn
import torch_xla

torch.set_default_dtype(torch.float64)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x = torch.randn(16, 32).to(device)
    optimizer.zero_grad()
    loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
