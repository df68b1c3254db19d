"""Training has a batch of 64, evaluation one of 100."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for _ in range(4):
        x, y = torch.randn(64, 32).to(device), torch.randint(0, 4, (64,)).to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch_xla.sync()
    with torch.no_grad():
        for _ in range(2):
            out = model(torch.randn(100, 32).to(device))
            torch_xla.sync()
