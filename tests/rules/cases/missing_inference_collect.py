"""Inference over a data set; all predictions are read at the end, no mark anywhere."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device).eval()
outputs = []
with torch.no_grad():
    for _ in range(8):
        outputs.append(model(torch.randn(16, 32).to(device)).argmax(-1))
print(torch.cat(outputs).cpu().sum())
