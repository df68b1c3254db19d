"""Each step sends a batch of 2 MiB, a new one each time: that is what a step is for."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=8), nn.Flatten(), nn.LazyLinear(4))
model(torch.zeros(1, 3, 104, 104))
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    x, y = torch.randn(16, 3, 104, 104).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
