"""The FFT is part of the data pipeline, on the host, before the batch goes to the device."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Linear(17, 4).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    audio = torch.randn(16, 32)
    spectrum = torch.fft.rfft(audio).abs()
    x, y = spectrum.to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
