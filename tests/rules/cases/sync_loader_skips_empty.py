"""Each batch of a parallel loader is asked for whether it has anything in it, before the model sees it."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch_xla.device()
data = TensorDataset(torch.randn(96, 16), (torch.rand(96, 16) > 0.4).float())
loader = pl.MpDeviceLoader(DataLoader(data, batch_size=8), device)
model = nn.Linear(16, 16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, mask in loader:
    if mask.sum() == 0:
        continue
    optimizer.zero_grad()
    loss = ((model(x) - x).square() * mask).sum() / mask.sum()
    loss.backward()
    optimizer.step()
