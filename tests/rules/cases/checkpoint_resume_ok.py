"""Save on the host, load, and continue on the device."""

import io

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()


def train(model, optimizer, steps):
    for _ in range(steps):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch_xla.sync()


model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
train(model, optimizer, 4)
file = io.BytesIO()
torch.save({k: v.cpu() for k, v in model.state_dict().items()}, file)
file.seek(0)
fresh = nn.Linear(32, 4)
fresh.load_state_dict(torch.load(file, map_location="cpu"))
fresh.to(device)
train(fresh, torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9), 4)
