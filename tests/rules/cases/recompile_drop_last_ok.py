"""The same data with drop_last, shuffled, over epochs, with momentum: two graphs."""

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

device = torch_xla.device()
data = TensorDataset(torch.randn(152, 128), torch.randint(0, 16, (152,)))
loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
model = nn.Linear(128, 16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(4):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print(epoch, loss.item())
