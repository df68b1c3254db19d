"""The whole output comes back to the host at every step, after the mark."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(64, 8192).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
history = []
for step in range(10):
    x, y = torch.randn(64, 64).to(device), torch.randint(0, 8192, (64,)).to(device)
    optimizer.zero_grad()
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    history.append(logits.detach().cpu().argmax(-1))
