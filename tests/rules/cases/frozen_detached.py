"""The features are detached, and yet the backbone is in the optimizer."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
backbone = nn.Sequential(nn.Linear(32, 32), nn.ReLU()).to(device)
head = nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam([*backbone.parameters(), *head.parameters()])
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    features = backbone(x).detach()
    loss = nn.functional.cross_entropy(head(features), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
