"""A codebook behind a straight-through estimator, without a loss of its own."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

device = torch_xla.device()


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 8), nn.Linear(8, 16)
        self.codes = nn.Embedding(32, 8)

    def forward(self, x):
        z = self.encoder(x)
        nearest = torch.cdist(z, self.codes.weight).argmin(-1)
        q = z + (self.codes(nearest) - z).detach()
        return self.decoder(q)


model = VQ().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(16, 16).to(device)
    optimizer.zero_grad()
    F.mse_loss(model(x), x).backward()
    optimizer.step()
    torch_xla.sync()
