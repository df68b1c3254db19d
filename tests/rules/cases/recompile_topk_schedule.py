"""k of top-k grows with the step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 16).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(8):
    x = torch.randn(16, 32).to(device)
    optimizer.zero_grad()
    loss = -model(x).topk(1 + step, dim=-1).values.mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
