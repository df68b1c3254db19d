"""The loader marks every second batch, as it was told; the loss is fetched at each: that is a read, no missing mark."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.distributed.parallel_loader as pl

device = torch_xla.device()
data = TensorDataset(torch.randn(96, 16), torch.randint(0, 4, (96,)))
loader = pl.MpDeviceLoader(DataLoader(data, 8, shuffle=True), device, batches_per_execution=2)
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
seen = {}
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seen[epoch, i] = loss.detach().cpu().numpy()
print(len(seen))
