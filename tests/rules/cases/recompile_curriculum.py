"""The sequence grows with a curriculum: a new length every other step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 64)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randint(0, 64, (8, 64))
for step in range(10):
    length = 8 + 4 * (step // 2)
    tokens = data[:, :length].to(device)
    optimizer.zero_grad()
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
