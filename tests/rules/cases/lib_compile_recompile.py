"""torch_xla.compile around the step, and batches of many sizes."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train_step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


compiled = torch_xla.compile(train_step)
for step in range(8):
    size = 16 + step
    x, y = torch.randn(size, 32).to(device), torch.randint(0, 4, (size,)).to(device)
    loss = compiled(x, y)
