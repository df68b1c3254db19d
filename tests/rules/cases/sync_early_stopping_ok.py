"""Early stopping on the validation loss, read once an epoch after the last mark."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters())
train = [(torch.randn(16, 32), torch.randint(0, 4, (16,))) for _ in range(4)]
valid = [(torch.randn(16, 32), torch.randint(0, 4, (16,))) for _ in range(2)]
best, bad = float("inf"), 0
for epoch in range(6):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    model.eval()
    total = torch.zeros((), device=device)
    with torch.no_grad():
        for x, y in valid:
            total += nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            torch_xla.sync()
    value = total.item() / len(valid)
    bad = 0 if value < best else bad + 1
    best = min(best, value)
    if bad == 2:
        break
