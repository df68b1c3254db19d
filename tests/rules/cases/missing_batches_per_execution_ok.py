"""The loader was told to mark after every second batch."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

device = torch_xla.device()
dataset = TensorDataset(torch.randn(192, 32), torch.randint(0, 4, (192,)))
loader = pl.MpDeviceLoader(DataLoader(dataset, batch_size=16), device, batches_per_execution=4)
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(loss.item())
