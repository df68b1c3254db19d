"""The parallel loader marks the steps, so a read at the end of the loop's body comes before the mark."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += float(value) * n
        self.count += n


def train(loader, model, optimizer):
    meter = Meter()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        xm.optimizer_step(optimizer)
        meter.update(loss, len(x))
    return meter.total / meter.count


device = xm.xla_device()
dataset = TensorDataset(torch.randn(96, 32), torch.randint(0, 4, (96,)))
loader = pl.MpDeviceLoader(DataLoader(dataset, batch_size=16, drop_last=True), device)
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    print(epoch, train(loader, model, optimizer))
