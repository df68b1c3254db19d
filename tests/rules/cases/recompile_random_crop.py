"""Random crops on the device with Python offsets: the bounds of the slice are part of the graph."""

import random

import torch
import torch.nn as nn
import torch_xla

random.seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    images, y = torch.randn(8, 3, 24, 24).to(device), torch.randint(0, 4, (8,)).to(device)
    top, left = random.randint(0, 8), random.randint(0, 8)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images[:, :, top : top + 16, left : left + 16]), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
