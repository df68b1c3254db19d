"""Some batches come as float64 from numpy, others as float32."""

import numpy
import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rng = numpy.random.default_rng(0)
for step in range(8):
    batch = rng.normal(size=(8, 16))
    if step in (4, 6):
        batch = batch.astype("float32")
    x = torch.from_numpy(batch).to(device)
    optimizer.zero_grad()
    loss = model(x.float()).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
