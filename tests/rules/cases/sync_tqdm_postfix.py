"""The progress bar shows the loss at every step, before the optimizer has stepped."""

import sys

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters())


def train_one_epoch(epoch, steps):
    for step in range(steps):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        sys.stdout.write(f"\repoch {epoch} step {step} loss {loss:.4f}")
        optimizer.step()
        xm.mark_step()


for epoch in range(2):
    train_one_epoch(epoch, 5)
