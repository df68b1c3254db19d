"""The unusual op comes only after ten steps of warm-up: its line is found all the same."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 32).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(8, 32).to(device)
    optimizer.zero_grad()
    out = model(x)
    loss = out.square().mean()
    if step >= 10:
        loss = loss + torch.logcumsumexp(out, dim=1).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
