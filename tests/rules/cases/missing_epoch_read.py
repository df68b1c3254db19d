"""A running loss on the device, read once an epoch; nobody marks a step."""

import torch
import torch.nn as nn
import torch_xla


def train(model, optimizer, device, steps):
    total = torch.zeros((), device=device)
    for _ in range(steps):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / steps


device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    print(epoch, train(model, optimizer, device, 4))
