"""Pre-training with a frozen backbone, then fine-tuning: the second phase compiles its own graphs once."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
backbone, head = nn.Linear(32, 32).to(device), nn.Linear(32, 4).to(device)


def train(parameters, steps):
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for _ in range(steps):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(torch.relu(backbone(x))), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    return loss


for p in backbone.parameters():
    p.requires_grad_(False)
print(train(list(head.parameters()), 6).item())
for p in backbone.parameters():
    p.requires_grad_(True)
print(train([*backbone.parameters(), *head.parameters()], 6).item())
