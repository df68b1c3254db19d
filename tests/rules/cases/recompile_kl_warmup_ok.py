"""A VAE whose KL weight goes from 0 to 1, and a softmax temperature from 1 to 0.5."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
encoder, decoder = nn.Linear(32, 16).to(device), nn.Linear(8, 32).to(device)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for step in range(12):
    beta, tau = min(1.0, step / 6), max(0.5, 1.0 - 0.05 * step)
    x = torch.randn(16, 32).to(device)
    optimizer.zero_grad()
    mean, log_var = encoder(x).chunk(2, -1)
    z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
    kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(-1).mean()
    loss = nn.functional.mse_loss(decoder(torch.softmax(z / tau, -1)), x) + beta * kl
    loss.backward()
    optimizer.step()
    torch_xla.sync()
