"""Gradients are cleared by hand, in several ways."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
for way in range(3):
    model = nn.Linear(32, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        if way == 0:
            for p in model.parameters():
                p.grad = None
        elif way == 1:
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.zero_()
        else:
            model.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
