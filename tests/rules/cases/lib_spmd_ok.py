"""SPMD over four virtual devices: sharded parameters and batch."""

import os

os.environ.setdefault("CPU_NUM_DEVICES", "4")
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
device = torch_xla.device()
n = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(n), (n, 1), ("data", "model"))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(device)
for p in model.parameters():
    if p.dim() == 2:
        xs.mark_sharding(p, mesh, ("data", None))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(8):
    x, y = torch.randn(16, 16).to(device), torch.randint(0, 8, (16,)).to(device)
    xs.mark_sharding(x, mesh, ("data", None))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print(loss.item())
