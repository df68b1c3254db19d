"""One sample a step, by design (reinforcement learning): no batch to align."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.Adam(policy.parameters())
for step in range(6):
    state = torch.randn(1, 8).to(device)
    optimizer.zero_grad()
    loss = -policy(state).log_softmax(-1)[:, 0].mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
