"""A sweep: a new model and a new optimizer for each configuration."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
for width in (16, 32):
    for rate in (0.1, 0.01):
        model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 4)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for step in range(5):
            x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
        print(width, rate, loss.item())
