"""ReduceLROnPlateau once an epoch, num_workers, and a gradient penalty with create_graph."""

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

device = torch_xla.device()
loader = DataLoader(TensorDataset(torch.randn(64, 16)), batch_size=16, num_workers=1, drop_last=True)
model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
for epoch in range(3):
    total = torch.zeros((), device=device)
    for (x,) in loader:
        x = x.to(device).requires_grad_()
        out = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = out.square().mean() + (slope.norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        torch_xla.sync()
    schedule.step(total.item())
