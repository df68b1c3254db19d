"""A large table is sent to the device again at every step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(512, 16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
projection = torch.randn(1024, 512)
for step in range(8):
    x, y = torch.randn(16, 1024).to(device), torch.randint(0, 16, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x @ projection.to(device)), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
