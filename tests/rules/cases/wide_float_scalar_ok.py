"""Python floats and a float64 scalar on the host never widen a float32 model; autocast narrows it."""

import numpy
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
scale = numpy.float64(0.1)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    with torch.autocast("xla", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x * scale) * 2.5, y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
