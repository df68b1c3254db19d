"""Metrics of the batch that was just trained on are computed after the mark, with a table sent for them: nothing is cut."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch_xla.device()
data = TensorDataset(torch.randn(96, 16), torch.randint(0, 4, (96,)))
loader = pl.MpDeviceLoader(DataLoader(data, batch_size=8), device)
model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters())
logits = y = None
for x, target in loader:
    if logits is not None:
        costs = torch.tensor([1.0, 1.0, 2.0, 4.0], device=device)
        wrong = logits.argmax(-1) != y
        print(f"cost {(costs[y] * wrong).sum().item():.1f}, norm {model[0].weight.norm().item():.2f}")
    optimizer.zero_grad()
    output = model(x)
    loss = nn.functional.cross_entropy(output, target)
    loss.backward()
    optimizer.step()
    logits, y = output.detach(), target
