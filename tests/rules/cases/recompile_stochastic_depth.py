"""Stochastic depth with Python's random: another set of layers at every step."""

import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        for block in self.blocks:
            if self.training and random.random() < 0.4:
                continue
            x = x + torch.relu(block(x))
        return self.head(x)


random.seed(1)
device = xm.xla_device()
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10):
    x, y = torch.randn(16, 32), torch.randint(0, 4, (16,))
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    xm.mark_step()
