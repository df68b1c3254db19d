"""torch_xla.launch, with everything inside the function."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def _mp_fn(index):
    device = torch_xla.device()
    dataset = TensorDataset(torch.randn(96, 32), torch.randint(0, 4, (96,)))
    loader = pl.MpDeviceLoader(DataLoader(dataset, batch_size=16, drop_last=True), device)
    model = nn.Linear(32, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)
    xm.master_print(loss.item())


if __name__ == "__main__":
    torch_xla.launch(_mp_fn, args=())
