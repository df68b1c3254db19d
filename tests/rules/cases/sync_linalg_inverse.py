"""torch.linalg.inv checks its result on the host, inside every step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(8, 64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(8, 8).to(device)
    optimizer.zero_grad()
    matrix = model(x).view(8, 8, 8) + 8 * torch.eye(8, device=device)
    loss = torch.linalg.inv(matrix).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
