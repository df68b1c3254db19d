"""Inference by torch.compile with the openxla backend."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)).to(device).eval()
fast = torch.compile(model, backend="openxla")
total = torch.zeros((), device=device)
with torch.no_grad():
    for _ in range(6):
        out = fast(torch.randn(16, 32).to(device))
        total += out.sum()
        torch_xla.sync()
print(total.item())
