"""The causal mask is made on the host in forward and sent each time."""

import torch
import torch.nn as nn
import torch_xla


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("scale", torch.tensor(width**-0.5))
        self.mask = torch.full((640, 640), float("-inf")).triu(1)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) * self.scale + self.mask.to(x.device)
        return scores.softmax(-1) @ v


device = torch_xla.device()
model = Attention().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(1, 640, 16).to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
