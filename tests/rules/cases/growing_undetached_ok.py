"""The running loss is added up without detach: bad style, but every step has the same graph."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for step in range(10):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total = total + loss
    torch_xla.sync()
print(total.item() / 10)
