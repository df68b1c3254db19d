"""The class weights, Python numbers in a list, change every epoch and so does the number of terms in the loss."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(6):
    for _ in range(2):
        x, y = torch.randn(16, 16).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        hidden = model(x)
        loss = nn.functional.cross_entropy(hidden, y)
        for power in range(epoch):
            loss = loss + hidden.pow(power + 2).mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
