"""The longest text of the batch is asked of the device before the forward pass, to pad to the next multiple of 16."""

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Embedding(50, 16, padding_idx=0), nn.Flatten(), nn.Linear(32 * 16, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters())


def pad(tokens, lengths):
    longest = int(lengths.max())
    width = (longest + 15) // 16 * 16
    return nn.functional.pad(tokens[:, :width], (0, 32 - width))


for _ in range(10):
    tokens = torch.randint(1, 50, (8, 32)).to(device)
    lengths = torch.randint(20, 33, (8,)).to(device)
    y = torch.randint(0, 4, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(pad(tokens, lengths)), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
