"""A hash of token ids in int64: multiplied, shifted and taken modulo, over 2048 of them."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
table = nn.Embedding(64, 8).to(device)
optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
for step in range(5):
    ids = torch.randint(0, 1 << 30, (16, 128)).to(device)
    buckets = (ids * 2654435761 + 12345) % 64
    optimizer.zero_grad()
    loss = table(buckets).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
