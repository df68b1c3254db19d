"""The forward pass agrees; a backward pass written by hand doesn't."""

import torch
import torch.nn as nn
import torch_xla


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * 16).round() / 16

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient if x.device.type == "cpu" else gradient * (x.abs() < 0.5)


class Quantized(nn.Module):
    def forward(self, x):
        return Round.apply(x)


device = torch_xla.device()
model = nn.Sequential(nn.Linear(8, 16), Quantized(), nn.Linear(16, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    x = torch.randn(16, 8).to(device)
    optimizer.zero_grad()
    output = model(x)
    loss = (output - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
