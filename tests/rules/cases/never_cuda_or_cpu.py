"""The usual line for GPUs picks the CPU here; torch_xla isn't even imported."""

import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x, y = torch.randn(16, 32, device=device), torch.randint(0, 4, (16,), device=device)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
