"""An op without lowering runs once, when the model is made: worth knowing, no fault."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
basis = torch.fft.fft(torch.eye(16, device=device)).real.contiguous()
model = nn.Linear(16, 16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(16, 16).to(device)
    optimizer.zero_grad()
    loss = (model(x) @ basis).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
