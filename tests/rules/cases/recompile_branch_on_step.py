"""After a third of the training a regulariser is switched off and on again by the step's number."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(12):
    x = torch.randn(16, 32).to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    for k in range(step % 5):
        loss = loss + 0.01 * model[0].weight.norm() / (k + 1)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
