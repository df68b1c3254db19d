"""MpDeviceLoader marks the steps; the loader under it keeps a last batch of 8."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch_xla.device()
    dataset = TensorDataset(torch.randn(72, 32), torch.randint(0, 4, (72,)))
    loader = pl.MpDeviceLoader(DataLoader(dataset, batch_size=32), device)
    model = nn.Linear(32, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()


main()
