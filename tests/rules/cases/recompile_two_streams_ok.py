"""Labelled batches of 16 and unlabelled ones of 48 take turns."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x = torch.randn(16 if step % 2 == 0 else 48, 32).to(device)
    optimizer.zero_grad()
    logits = model(x)
    if step % 2 == 0:
        loss = nn.functional.cross_entropy(logits, torch.randint(0, 4, (16,)).to(device))
    else:
        loss = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
