"""Two optimizers, three steps of the critic for one of the generator, one mark a round."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)).to(device)
critic = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
opt_g = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
opt_c = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
for step in range(6):
    for _ in range(3):
        real = torch.randn(16, 16).to(device)
        noise = torch.randn(16, 8, device=device)
        opt_c.zero_grad()
        loss_c = critic(generator(noise).detach()).mean() - critic(real).mean()
        loss_c.backward()
        opt_c.step()
        for p in critic.parameters():
            p.data.clamp_(-0.01, 0.01)
    opt_g.zero_grad()
    loss_g = -critic(generator(torch.randn(16, 8, device=device))).mean()
    loss_g.backward()
    opt_g.step()
    torch_xla.sync()
    if step % 2 == 0:
        print(step, loss_c.item(), loss_g.item())
