"""A metric is computed and read after the mark, at every step: a small graph of its own, nothing is cut."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    accuracy = (logits.argmax(-1) == y).float().mean().item()
    print(f"{step} {loss.item():.3f} {accuracy:.2f}")
