"""A rotation of complex numbers in complex128, no FFT anywhere."""

import torch
import torch_xla

device = torch_xla.device()
phase = torch.randn(64, dtype=torch.float64).to(device).requires_grad_()
optimizer = torch.optim.SGD([phase], lr=0.1)
for step in range(5):
    signal = torch.randn(16, 64, dtype=torch.complex128).to(device)
    optimizer.zero_grad()
    turned = signal * torch.complex(phase.cos(), phase.sin())
    loss = torch.view_as_real(turned).sum(0).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
