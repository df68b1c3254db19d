"""A row of the attention mask is all -inf: softmax gives NaN there."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
project = nn.Linear(16, 16).to(device)
optimizer = torch.optim.Adam(project.parameters())
mask = torch.zeros(8, 8)
mask[0] = float("-inf")
mask = mask.to(device)
for step in range(6):
    x = torch.randn(8, 8, 16).to(device)
    optimizer.zero_grad()
    q = project(x)
    weights = torch.softmax(q @ q.transpose(1, 2) + mask, -1)
    loss = (weights @ x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
