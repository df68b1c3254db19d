"""Greedy decoding with a cache of fixed size: the position is a tensor, so every token has the same graph."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
embedding, query, key = nn.Embedding(32, 16).to(device), nn.Linear(16, 16).to(device), nn.Linear(16, 16).to(device)
cache = torch.zeros(8, 12, 16, device=device)
places = torch.arange(12, device=device)
token = torch.zeros(8, 1, dtype=torch.long, device=device)
position = torch.zeros(1, dtype=torch.long, device=device)
with torch.no_grad():
    for _ in range(10):
        hidden = embedding(token)
        cache = cache.index_copy(1, position, key(hidden))
        scores = (query(hidden) @ cache.transpose(1, 2)).masked_fill(places > position, float("-inf"))
        mixed = scores.softmax(-1) @ cache
        token = (mixed @ embedding.weight.T).argmax(-1)
        position = position + 1
        torch_xla.sync()
print(token.flatten().tolist())
