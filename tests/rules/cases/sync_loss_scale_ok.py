"""Loss scaling by hand, all on the device: torch.where decides instead of an if."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scale = torch.tensor(1024.0, device=device)
for i in range(8):
    x, y = torch.randn(8, 16, device=device), torch.randint(0, 2, (8,), device=device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    (loss * scale).backward()
    finite = torch.stack([torch.isfinite(p.grad).all() for p in model.parameters()]).all()
    for p in model.parameters():
        p.grad = torch.where(finite, p.grad / scale, torch.zeros_like(p.grad))
    optimizer.step()
    scale = torch.where(finite, scale * 1.5, scale / 2)
    xm.mark_step()
    if i % 4 == 3:
        print(i, loss.item(), scale.item())
