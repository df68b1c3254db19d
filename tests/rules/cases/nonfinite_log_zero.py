"""The loss takes the log of a probability that reaches zero."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = 200 * torch.randn(16, 8).to(device)
    optimizer.zero_grad()
    loss = -torch.log(torch.softmax(model(x), -1)[:, 0]).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
