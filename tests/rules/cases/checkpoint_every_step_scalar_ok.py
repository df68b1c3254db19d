"""A history of Python numbers and CPU tensors is saved; nothing of it is on the device."""

import io

import torch
import torch.nn as nn
import torch_xla
import torch_xla.utils.serialization as xser

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    history.append(loss.item())
weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
torch.save({"history": history, "weights": weights, "rng": torch.get_rng_state()}, io.BytesIO())
