"""accelerate prepares model, optimizer and loader; the loader marks the steps."""

import torch
import torch.nn as nn
import torch_xla
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
dataset = TensorDataset(torch.randn(128, 32), torch.randint(0, 4, (128,)))
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
model = accelerator.prepare(model)
optimizer = torch.optim.AdamW(model.parameters())
optimizer, loader = accelerator.prepare(optimizer, DataLoader(dataset, batch_size=16, drop_last=True))
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
torch_xla.sync()
print(loss.item())
