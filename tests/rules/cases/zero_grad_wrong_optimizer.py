"""GAN: the generator's loop clears the discriminator's gradients, its own pile up."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
other = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer2 = torch.optim.SGD(other.parameters(), lr=0.01)
for step in range(8):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 2, (16,)).to(device)
    optimizer2.zero_grad()
    loss = nn.functional.cross_entropy(other(model(x)), y)
    loss.backward()
    optimizer.step()
    optimizer2.step()
    torch_xla.sync()
