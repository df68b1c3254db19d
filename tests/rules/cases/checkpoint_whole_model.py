"""The whole module is pickled while it is on the device."""

import io

import torch
import torch.nn as nn
import torch_xla


def save(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    return buffer.getvalue()


device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    torch_xla.sync()
print(len(save(model)), "bytes")
