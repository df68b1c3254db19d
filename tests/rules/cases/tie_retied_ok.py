"""Tied again after the move."""

import torch
import torch.nn as nn
import torch_xla


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=64, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.tie()

    def tie(self):
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


device = torch_xla.device()
model = LanguageModel().to(device)
model.tie()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    tokens = torch.randint(0, 64, (8, 16)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
