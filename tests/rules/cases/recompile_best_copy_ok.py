"""A copy of the best weights is kept on the device: a graph with more outputs, now and then."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters())
best, best_loss = None, float("inf")
for epoch in range(3):
    model.train()
    for _ in range(3):
        x, y = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    model.eval()
    total = torch.zeros((), device=device)
    with torch.no_grad():
        for _ in range(3):
            x, y = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
            total += F.cross_entropy(model(x), y, reduction="sum")
            torch_xla.sync()
    if total.item() < best_loss:
        best_loss = total.item()
        best = {name: value.detach().clone() for name, value in model.state_dict().items()}
print(best_loss, best["0.weight"].mean().item())
