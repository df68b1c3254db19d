"""A mask of ones and -inf is built anew on the host at every step, and sent."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
project = nn.Linear(16, 16).to(device)
optimizer = torch.optim.SGD(project.parameters(), lr=0.01)


def causal_mask(length):
    return torch.full((length, length), float("-inf")).triu(1)


for step in range(6):
    x = torch.randn(1, 640, 16).to(device)
    optimizer.zero_grad()
    q = project(x)
    scores = q @ q.transpose(1, 2)
    scores = scores + causal_mask(640).to(device)
    loss = (scores.softmax(-1) @ x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
