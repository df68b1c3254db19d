"""The running loss is never detached: each backward goes through the graphs of all the steps before."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
total = torch.zeros((), device=device)
for step in range(10):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    with torch.autograd.graph.save_on_cpu() if False else torch.enable_grad():
        total = total + nn.functional.mse_loss(torch.nn.functional.linear(x, model.weight.clone()), y.float()[:, None])
    total.backward(retain_graph=True)
    optimizer.step()
    torch_xla.sync()
