"""Built before the move; gradients are cleared through the model, so nothing looks odd."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def build():
    model = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    return model, optimizer


model, optimizer = build()
device = xm.xla_device()
model.to(device)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
