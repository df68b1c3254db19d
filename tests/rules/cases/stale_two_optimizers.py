"""A GAN whose networks are moved after both optimizers were made."""

import torch
import torch.nn as nn
import torch_xla

G, D = nn.Linear(8, 16), nn.Linear(16, 1)
opt_g = torch.optim.Adam(G.parameters())
opt_d = torch.optim.Adam(D.parameters())
device = torch_xla.device()
G, D = G.to(device), D.to(device)
for step in range(6):
    real, noise = torch.randn(16, 16).to(device), torch.randn(16, 8).to(device)
    opt_d.zero_grad()
    loss_d = D(G(noise).detach()).mean() - D(real).mean()
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = -D(G(noise)).mean()
    loss_g.backward()
    opt_g.step()
    torch_xla.sync()
