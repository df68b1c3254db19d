"""The training loop marks its steps, the evaluation doesn't: accuracy is read batch by batch."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate():
    model.eval()
    correct = 0
    with torch.no_grad():
        for _ in range(6):
            x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
            correct += (model(x).argmax(-1) == y).sum().item()
    model.train()
    return correct / 96


for epoch in range(2):
    for _ in range(5):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch_xla.sync()
    print(epoch, evaluate())
