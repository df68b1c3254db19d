"""A diffusion model: time steps drawn on the device, a schedule indexed by them, clipped gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = torch_xla.device()


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(100, 32)
        self.net = nn.Sequential(nn.Linear(48, 64), nn.SiLU(), nn.Linear(64, 16))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], -1))


model = Denoiser().to(device)
betas = torch.linspace(1e-4, 0.02, 100, device=device)
alphas = torch.cumprod(1 - betas, 0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    x = torch.randn(32, 16).to(device)
    t = torch.randint(0, 100, (32,), device=device)
    noise = torch.randn_like(x)
    a = alphas[t][:, None]
    noisy = a.sqrt() * x + (1 - a).sqrt() * noise
    optimizer.zero_grad()
    loss = F.mse_loss(model(noisy, t), noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch_xla.sync()
    if step % 5 == 4:
        print(step, loss.item())
