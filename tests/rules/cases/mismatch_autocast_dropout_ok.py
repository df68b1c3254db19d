"""Bfloat16 over six layers with dropout: rounding, and other random numbers on the device."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
model = nn.Sequential(
    nn.Linear(16, 32), nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(32, 4)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    x, y = torch.randn(8, 12, 16).to(device), torch.randint(0, 4, (8 * 12,)).to(device)
    optimizer.zero_grad()
    with torch.autocast("xla", dtype=torch.bfloat16):
        output = model(x).flatten(0, 1)
    loss = nn.functional.cross_entropy(output.float(), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
