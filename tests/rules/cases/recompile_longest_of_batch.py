"""Every batch is cut to its longest text: a new shape, and nearly every batch compiles again."""

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
embed, head = nn.Embedding(50, 16).to(device), nn.Linear(16, 50).to(device)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()])
for _ in range(8):
    lengths = torch.randint(4, 30, (4,)).to(device)
    tokens = torch.randint(0, 50, (4, 32)).to(device)
    longest = lengths.max().item()
    tokens = tokens[:, :longest]
    loss = nn.functional.cross_entropy(head(embed(tokens)).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
