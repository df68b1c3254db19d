"""A lazy layer is converted before it knows its shape, learns it on the host, and is moved."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(4)).to(torch.float32)
model(torch.zeros(8, 32))
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
