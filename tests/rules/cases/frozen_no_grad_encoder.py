"""The encoder runs under no_grad although it was meant to learn."""

import torch
import torch.nn as nn
import torch_xla


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(8, 16, batch_first=True)
        self.decoder = nn.Linear(16, 4)

    def forward(self, x):
        with torch.no_grad():
            hidden, _ = self.encoder(x)
        return self.decoder(hidden[:, -1])


device = torch_xla.device()
model = Model().to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    x, y = torch.randn(8, 5, 8).to(device), torch.randint(0, 4, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
