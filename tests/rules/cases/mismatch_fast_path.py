"""The second block takes a short cut on the accelerator."""

import torch
import torch.nn as nn
import torch_xla


class Smooth(nn.Module):
    def forward(self, x):
        if x.device.type == "xla":
            return x * torch.sigmoid(1.702 * x)  # close to GELU, but not GELU
        return nn.functional.gelu(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(16, 32), nn.GELU())
        self.second = nn.Sequential(nn.Linear(32, 32), Smooth(), nn.Linear(32, 4))

    def forward(self, x):
        return self.second(self.first(x))


device = torch_xla.device()
model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    x, y = torch.randn(16, 16).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
