"""An assertion on the loss, at every step, inside a helper."""

import torch
import torch.nn as nn
import torch_xla


def check(loss, step):
    assert not torch.isnan(loss).any(), f"NaN at {step}"


device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    check(loss, step)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
