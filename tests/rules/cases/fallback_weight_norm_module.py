"""The library's weight_norm runs on the host, forward and backward."""

import torch
import torch.nn as nn
import torch_xla
from torch.nn.utils.parametrizations import weight_norm


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = weight_norm(nn.Conv1d(4, 8, 3, padding=1))
        self.out = nn.Conv1d(8, 1, 1)

    def forward(self, x):
        x = torch.tanh(self.convolution(x))
        return self.out(x)


device = torch_xla.device()
model = Vocoder().to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x = torch.randn(8, 4, 32).to(device)
    optimizer.zero_grad()
    loss = model(x).abs().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
