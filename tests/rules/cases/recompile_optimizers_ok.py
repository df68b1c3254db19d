"""The optimizers that people use, one after the other."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
kinds = [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: torch.optim.Adam(p, amsgrad=True),
    lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    lambda p: torch.optim.Adagrad(p, lr=0.01),
    lambda p: torch.optim.RAdam(p, lr=0.01),
    lambda p: torch.optim.NAdam(p, lr=0.01),
]
for make in kinds:
    model = nn.Linear(16, 4).to(device)
    optimizer = make(model.parameters())
    for step in range(8):
        x, y = torch.randn(16, 16).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch_xla.sync()
