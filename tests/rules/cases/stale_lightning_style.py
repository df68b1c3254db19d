"""The optimizer is configured in the model's constructor, long before the move."""

import torch
import torch.nn as nn
import torch_xla


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def training_step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


device = torch_xla.device()
task = Task().to(device)
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    loss = task.training_step(x, y)
    torch_xla.sync()
print(loss.item())
