"""BatchNorm, dropout, label smoothing and an exponential moving average of the weights."""

import copy

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
    nn.Linear(4, 4),
).to(device)  # fmt: skip
average = copy.deepcopy(model).requires_grad_(False).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    model.train()
    for _ in range(4):
        x, y = torch.randn(16, 1, 8, 8).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters()):
                slow.lerp_(fast, 0.01)
        torch_xla.sync()
    with torch.no_grad():
        correct = torch.zeros((), dtype=torch.long, device=device)
        for _ in range(3):
            x, y = torch.randn(16, 1, 8, 8).to(device), torch.randint(0, 4, (16,)).to(device)
            correct += (average(x).argmax(-1) == y).sum()
            torch_xla.sync()
        print(epoch, loss.item(), correct.item() / 48)
