"""Frequencies are made in float64, and so is every sine."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freqs", torch.linspace(1, 64, 32, dtype=torch.float64))
        self.head = nn.Linear(32, 4)

    def forward(self, t):
        angles = t[:, None] * self.freqs
        return self.head(torch.sin(angles).float())


device = torch_xla.device()
model = Wave().to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    t, y = torch.rand(16).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(t), y).backward()
    optimizer.step()
    torch_xla.sync()
