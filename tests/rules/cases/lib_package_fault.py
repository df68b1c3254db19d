"""The model lives in another file, and so does the line that reads a value."""

import torch
import torch.nn as nn
import torch_xla
from _package import layers

device = torch_xla.device()
model = layers.Net(fault=True).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
