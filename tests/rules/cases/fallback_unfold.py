"""Patches are cut out with F.unfold, which runs on the host."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(27, 8)

    def forward(self, images):
        columns = F.unfold(images, kernel_size=3, padding=1)
        return self.project(columns.transpose(1, 2)).mean((1, 2))


device = torch_xla.device()
model = Patches().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    images = torch.randn(8, 3, 8, 8).to(device)
    optimizer.zero_grad()
    loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
