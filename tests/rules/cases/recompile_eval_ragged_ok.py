"""Training drops its last batch; the test set is gone through whole, with a smaller last batch, once."""

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

device = torch_xla.device()
data = TensorDataset(torch.randn(96, 32), torch.randint(0, 4, (96,)))
held_out = TensorDataset(torch.randn(72, 32), torch.randint(0, 4, (72,)))
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=32, shuffle=True, drop_last=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
        torch_xla.sync()
    correct = torch.zeros((), device=device)
    with torch.no_grad():
        for x, y in DataLoader(held_out, batch_size=32):
            correct += (model(x.to(device)).argmax(-1) == y.to(device)).sum()
            torch_xla.sync()
    print(epoch, correct.item() / 72)
