"""A guard against NaN branches on the loss at every step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if torch.isnan(loss):
        print("skipping a bad batch")
        continue
    loss.backward()
    optimizer.step()
    torch_xla.sync()
