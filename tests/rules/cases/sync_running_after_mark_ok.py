"""A running loss that is added to inside the step and read after the mark, scaled, at every step: it follows the mark."""

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
running = torch.zeros((), device=device)
previous = None
for step in range(1, 11):
    x = torch.randn(8, 16).to(device)
    y = torch.randint(0, 4, (8,)).to(device)
    if previous is not None:
        print(f"last {(previous * 2).item():.3f}")
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    running += loss.detach()
    previous = loss.detach()
    torch_xla.sync()
    print(f"{step} {(running / step).item():.3f} {loss.item() * 100:.1f}")
