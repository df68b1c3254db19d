"""Edges are counted in float32 and classes by adding up rows of integers: no product of 64-bit integers."""

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
counts = torch.zeros(4, dtype=torch.int64, device=device)
for _ in range(6):
    adjacency = torch.randint(0, 2, (16, 16)).to(device)
    features = torch.randn(16, 16).to(device)
    y = torch.randint(0, 4, (16,)).to(device)
    counts += nn.functional.one_hot(y, 4).sum(0)
    hops = adjacency.float() @ adjacency.float()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(hops @ features), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print(counts.tolist())
