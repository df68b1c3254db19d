"""The classic GAN: a mark after each of the two optimizers."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
G = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16)).to(device)
D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(32, 1)).to(device)
opt_g = torch.optim.Adam(G.parameters(), betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(16, 1, device=device), torch.zeros(16, 1, device=device)
for step in range(8):
    real = torch.randn(16, 16).to(device)
    fake = G(torch.randn(16, 8).to(device))
    D.zero_grad()
    loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    loss_d.backward()
    xm.optimizer_step(opt_d, barrier=True)
    G.zero_grad()
    loss_g = bce(D(fake), ones)
    loss_g.backward()
    xm.optimizer_step(opt_g, barrier=True)
    print(step, loss_d.item(), loss_g.item())
