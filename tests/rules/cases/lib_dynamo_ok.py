"""torch.compile with the openxla backend, forward and backward by dynamo."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fast = torch.compile(model, backend="openxla")
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(fast(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print(loss.item())
