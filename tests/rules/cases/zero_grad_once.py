"""zero_grad is called once, before the loop."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
optimizer.zero_grad()
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    xm.optimizer_step(optimizer, barrier=True)
