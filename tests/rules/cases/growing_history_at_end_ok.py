"""Losses are kept in a list and put together once, at the end of the epoch."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    history = []
    for step in range(6):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
        torch_xla.sync()
    print(epoch, torch.stack(history).mean().item())
