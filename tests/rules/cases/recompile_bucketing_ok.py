"""Three fixed lengths, each seen over and over: three graphs and no more, as it should be."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 64)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
buckets = (16, 32, 64)
for step in range(18):
    length = buckets[step % 3]
    tokens = torch.randint(0, 64, (8, length)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
