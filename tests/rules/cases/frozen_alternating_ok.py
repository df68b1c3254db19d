"""Two tasks take turns: each step trains another head, and in the end both learnt."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
trunk = nn.Linear(32, 32).to(device)
heads = nn.ModuleList([nn.Linear(32, 4), nn.Linear(32, 2)]).to(device)
optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
for step in range(12):
    head = heads[step % 2]
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 2, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(head(torch.relu(trunk(x))), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
