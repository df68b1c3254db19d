"""torch_xla.step() around each step, the loss read outside of it every fourth step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    with torch_xla.step():
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    if step % 4 == 0:
        print(step, loss.item())
