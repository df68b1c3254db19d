"""A spectral layer: real FFTs have no lowering."""

import torch
import torch.nn as nn
import torch_xla


class Spectral(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(width // 2 + 1))

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=-1)
        return torch.fft.irfft(spectrum * self.filter, n=x.shape[-1], dim=-1)


device = torch_xla.device()
model = nn.Sequential(Spectral(32), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x, y = torch.randn(8, 32).to(device), torch.randint(0, 4, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
