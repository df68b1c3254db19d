"""A feature matrix straight from numpy: float64, and the model follows it."""

import numpy
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
rng = numpy.random.default_rng(0)
model = nn.Linear(32, 4).double().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.from_numpy(rng.normal(size=(16, 32))).to(device)
    y = torch.from_numpy(rng.integers(0, 4, size=16)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
