"""Clipping that raises on a gradient that is no number: it reads the norm at every step, inside torch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
model = nn.Sequential(nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 6)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for epoch in range(2):
    for i in range(5):
        x = torch.randn(32, 24, device=device)
        y = torch.randint(0, 6, (32,), device=device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("xla", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        xm.mark_step()
