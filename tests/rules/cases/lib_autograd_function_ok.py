"""A custom autograd function with saved tensors."""

import torch
import torch.nn as nn
import torch_xla


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


device = torch_xla.device()
first, second = nn.Linear(32, 32).to(device), nn.Linear(32, 4).to(device)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(second(Swish.apply(first(x))), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
