"""Edges are counted with a product of int64 adjacency matrices, as torch.randint makes them: the TPU compiler refuses that."""

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    adjacency = torch.randint(0, 2, (16, 16)).to(device)
    features = torch.randn(16, 16).to(device)
    hops = adjacency @ adjacency
    optimizer.zero_grad()
    loss = model(hops.float() @ features).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
