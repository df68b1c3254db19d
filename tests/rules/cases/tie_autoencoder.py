"""Encoder and decoder share one Parameter; the move is inside a helper function."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(32, 32, bias=False)
        self.decoder = nn.Linear(32, 32, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)))


def prepare(model, device):
    model.to(device)
    return model, torch.optim.Adam(model.parameters())


device = xm.xla_device()
model, optimizer = prepare(Tied(), device)
for step in range(5):
    x = torch.randn(16, 32).to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    xm.mark_step()
