"""Gradual unfreezing, one layer an epoch: each phase compiles once."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
for layer in (0, 2):
    model[layer].requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    if epoch:
        model[4 - 2 * epoch].requires_grad_(True)
    for _ in range(5):
        x, y = torch.randn(16, 16).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print(epoch, loss.item())
