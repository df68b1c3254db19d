"""Checkpoints made of CPU copies, once an epoch, of model and optimizer; and one by xm.save."""

import os
import tempfile

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils import _pytree as pytree

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
folder = tempfile.mkdtemp()
for epoch in range(3):
    for _ in range(4):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch_xla.sync()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    host = pytree.tree_map(lambda v: v.cpu() if isinstance(v, torch.Tensor) else v, state)
    torch.save(host, os.path.join(folder, f"checkpoint{epoch}.pt"))
xm.save(model.state_dict(), os.path.join(folder, "last.pt"))
