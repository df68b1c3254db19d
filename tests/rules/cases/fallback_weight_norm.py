"""Old-style audio model: reflection padding and a learned resampling on the host."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(
    nn.ReflectionPad1d(3),
    nn.Conv1d(4, 8, 7),
    nn.CELU(),
    nn.Conv1d(8, 1, 1),
    nn.Upsample(scale_factor=2, mode="linear"),
).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    audio = torch.randn(8, 4, 32).to(device)
    optimizer.zero_grad()
    loss = model(audio).abs().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
