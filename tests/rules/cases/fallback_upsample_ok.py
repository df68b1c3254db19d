"""Upsampling by interpolation: its backward pass has a lowering on a TPU, and none on XLA's CPU device."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, stride=4, padding=1)
        self.near = nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        h = nn.functional.interpolate(torch.relu(self.down(x)), scale_factor=2, mode="nearest")
        h = nn.functional.interpolate(torch.relu(self.near(h)), scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(h)


model = Decoder().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(8):
    x = torch.randn(8, 3, 64, 64).to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print(loss.item())
