"""-inf above the diagonal is how masks are made; the loss stays finite."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
project = nn.Linear(16, 16).to(device)
optimizer = torch.optim.Adam(project.parameters())
mask = torch.full((8, 8), float("-inf")).triu(1).to(device)
for step in range(6):
    x = torch.randn(8, 8, 16).to(device)
    optimizer.zero_grad()
    q = project(x)
    loss = (torch.softmax(q @ q.transpose(1, 2) + mask, -1) @ x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
