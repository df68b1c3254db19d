"""A batch of 4 sequences of 32 tokens: the rows of every product are 128."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 64)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    tokens = torch.randint(0, 64, (4, 32)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
