"""Hard example mining: the loss's own median decides, in Python, how many examples count."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    losses = nn.functional.cross_entropy(model(x), y, reduction="none")
    hard = int((losses > 1.3).sum())
    loss = losses.topk(max(hard, 1)).values.mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
