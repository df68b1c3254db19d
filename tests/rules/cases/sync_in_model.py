"""The model itself asks for a value: the longest sequence of the batch."""

import torch
import torch.nn as nn
import torch_xla


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, tokens, lengths):
        longest = int(lengths.max())
        hidden = self.embedding(tokens[:, :longest])
        return self.head(hidden.mean(1))


device = torch_xla.device()
model = Encoder().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    tokens = torch.randint(0, 50, (8, 24)).to(device)
    lengths = torch.randint(4, 25, (8,)).to(device)
    y = torch.randint(0, 4, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens, lengths), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
