"""Greedy decoding by concatenation: the sequence is one longer at every token."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32)).to(device).eval()
tokens = torch.zeros(8, 1, dtype=torch.long, device=device)
with torch.no_grad():
    for _ in range(8):
        following = model(tokens)[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, following], dim=1)
        torch_xla.sync()
print(tokens.cpu()[0].tolist())
