"""The recurrent state is made of zeros on the host and sent at every step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
cell = nn.GRUCell(16, 256).to(device)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
for step in range(5):
    x = torch.randn(1024, 16).to(device)
    hidden = torch.zeros(1024, 256).to(device)
    optimizer.zero_grad()
    loss = cell(x, hidden).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
