"""A small language model whose output layer is tied to its embedding, moved afterwards."""

import torch
import torch.nn as nn
import torch_xla


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=64, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens)))


device = torch_xla.device()
model = LanguageModel()
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    tokens = torch.randint(0, 64, (8, 16)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
