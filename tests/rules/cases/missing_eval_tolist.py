"""Training is marked by its loader; evaluation runs because each batch's answers become a list."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.distributed.parallel_loader as pl


def validate(model, loader, device):
    model.eval()
    guesses, truth = [], []
    with torch.no_grad():
        for x, y in loader:
            guesses += model(x.to(device)).argmax(1).tolist()
            truth += y.tolist()
    return sum(a == b for a, b in zip(guesses, truth)) / len(truth)


device = torch_xla.device()
data = TensorDataset(torch.randn(64, 12), torch.randint(0, 3, (64,)))
train, val = DataLoader(data, 16), DataLoader(data, 8)
model = nn.Linear(12, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    model.train()
    for x, y in pl.MpDeviceLoader(train, device):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(validate(model, val, device))
