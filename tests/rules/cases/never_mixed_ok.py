"""A small baseline is fitted on the host, the model itself on the device."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    torch_xla.sync()
baseline = nn.Linear(32, 4)
fit = torch.optim.SGD(baseline.parameters(), lr=0.1)
for _ in range(4):
    fit.zero_grad()
    nn.functional.cross_entropy(baseline(torch.randn(16, 32)), torch.randint(0, 4, (16,))).backward()
    fit.step()
