"""x[mask] = 0: an assignment through a mask looks for its places on the host."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 32).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 32).to(device)
    optimizer.zero_grad()
    out = model(x)
    target = x.clone()
    target[x.abs() > 2] = 0.0
    loss = nn.functional.mse_loss(out, target)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
