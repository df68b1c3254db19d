"""Only the head is in the optimizer; the backbone gets gradients that nobody uses, which is wasteful but trains."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
backbone = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)).to(device)
head = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(head(torch.relu(backbone(x))), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
