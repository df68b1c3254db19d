"""A loader with worker processes, through MpDeviceLoader."""

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.distributed.parallel_loader as pl

if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    data = TensorDataset(torch.randn(128, 16), torch.randint(0, 4, (128,)))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, drop_last=True)
    model = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(2):
        for x, y in pl.MpDeviceLoader(loader, device):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    print(loss.item())
