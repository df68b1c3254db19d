"""Inference alone is something, too: no optimizer, one mark a batch."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device).eval()
with torch.no_grad():
    for _ in range(6):
        out = model(torch.randn(16, 32).to(device))
        torch_xla.sync()
print(out.argmax(-1).cpu().tolist())
