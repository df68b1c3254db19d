"""A small data set is gone through many times: the same batches are sent again once an epoch."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
batches = [(torch.randn(64, 4096), torch.randint(0, 4, (64,))) for _ in range(4)]
model = nn.Linear(4096, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    for x, y in batches:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
