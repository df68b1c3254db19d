"""Inference with a device that was opened and never used."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).eval()
with torch.no_grad():
    for _ in range(4):
        out = model(torch.randn(16, 32))
        torch_xla.sync()
print(out.shape, device)
