"""Labels, token ids and positions are int64, as everywhere; nothing else is wide."""

import torch
import torch.nn as nn
import torch_xla


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(64, 16)
        self.place = nn.Embedding(32, 16)
        self.head = nn.Linear(16, 64)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.token(tokens) + self.place(positions))


device = torch_xla.device()
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    tokens = torch.randint(0, 64, (8, 32)).to(device)
    optimizer.zero_grad()
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
