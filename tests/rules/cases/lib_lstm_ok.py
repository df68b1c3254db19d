"""An LSTM over sequences of one length, gradients clipped, the state carried and detached."""

import torch
import torch.nn as nn
import torch_xla


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 8)
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 32)

    def forward(self, tokens, state):
        hidden, state = self.lstm(self.embedding(tokens), state)
        return self.head(hidden), state


device = torch_xla.device()
model = Tagger().to(device)
optimizer = torch.optim.Adam(model.parameters())
state = (torch.zeros(1, 8, 16, device=device), torch.zeros(1, 8, 16, device=device))
for step in range(6):
    tokens = torch.randint(0, 32, (8, 6)).to(device)
    optimizer.zero_grad()
    logits, state = model(tokens, state)
    state = tuple(s.detach() for s in state)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch_xla.sync()
