"""A numpy table becomes a tensor on the device in every forward pass."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

device = torch_xla.device()
table = np.random.rand(1024, 512).astype(np.float32)


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(512, 4)

    def forward(self, index):
        rows = torch.as_tensor(table, device=index.device)[index]
        return self.head(rows)


model = Lookup().to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    index, y = torch.randint(0, 1024, (16,)).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(index), y).backward()
    optimizer.step()
    torch_xla.sync()
