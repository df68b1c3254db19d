"""The targets come from numpy in float64, and the loss with them."""

import numpy
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
rng = numpy.random.default_rng(0)
model = nn.Linear(32, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(16, 32).to(device)
    target = torch.from_numpy(rng.normal(size=(16, 1))).to(device)
    optimizer.zero_grad()
    loss = (model(x) - target).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
