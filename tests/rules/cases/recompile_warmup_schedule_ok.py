"""Warm-up from zero and decay to zero: the learning rate is data, so no graph changes but where it is 0."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
total, warm = 16, 4
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda n: n / warm if n < warm else max(0.0, (total - n) / (total - warm))
)
for step in range(total + 2):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    torch_xla.sync()
