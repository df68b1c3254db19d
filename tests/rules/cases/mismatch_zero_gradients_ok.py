"""Gradients that are zero but for rounding, and a program that ends in evaluation on the CPU."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, bias=True), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 32), nn.LayerNorm(32), nn.Softmax(-1)
).to(device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x, y = torch.randn(8, 3, 8, 8).to(device), torch.randint(0, 32, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.nll_loss((model(x) + 1e-6).log(), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print(loss.item())
model.eval().cpu()
