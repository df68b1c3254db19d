"""torch.unique needs values to know its shape."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
torch.manual_seed(0)
table = nn.Embedding(32, 16).to(device)
optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
for step in range(8):
    ids = torch.randint(0, 32, (16,)).to(device)
    rows = torch.unique(ids)
    optimizer.zero_grad()
    loss = table(rows).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
