"""EmbeddingBag, the way recommenders use it."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
bag = nn.EmbeddingBag(64, 16, mode="sum").to(device)
head = nn.Linear(16, 1).to(device)
optimizer = torch.optim.SGD([*bag.parameters(), *head.parameters()], lr=0.1)
for step in range(6):
    ids = torch.randint(0, 64, (8, 4)).to(device)
    y = torch.rand(8, 1).to(device)
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(head(bag(ids)), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
