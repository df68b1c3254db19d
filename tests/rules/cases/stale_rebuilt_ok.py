"""The optimizer is built again after the move, and its state loaded: a resumed run."""

import torch
import torch.nn as nn
import torch_xla

model = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 32)), torch.randint(0, 4, (8,))).backward
device = torch_xla.device()
model.to(device)
state = optimizer.state_dict()
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(state)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
