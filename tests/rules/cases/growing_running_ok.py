"""The running loss is one tensor, and a bounded window of the last four is kept besides."""

import collections

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros((), device=device)
window = collections.deque(maxlen=4)
for step in range(12):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.detach()
    window.append(loss.detach())
    torch_xla.sync()
print(total.item() / 12, torch.stack(list(window)).mean().item())
