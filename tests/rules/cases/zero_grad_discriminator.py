"""The discriminator's gradients are never cleared, and the generator's loss adds to them as well."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
D = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
g_opt, d_opt = torch.optim.Adam(G.parameters(), 2e-4), torch.optim.Adam(D.parameters(), 2e-4)
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(8, 1, device=device), torch.zeros(8, 1, device=device)
for _ in range(8):
    real = torch.randn(8, 8, device=device)
    fake = G(torch.randn(8, 4, device=device))
    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_loss.backward()
    d_opt.step()
    g_opt.zero_grad()
    bce(D(fake), ones).backward()
    g_opt.step()
    torch_xla.sync()
