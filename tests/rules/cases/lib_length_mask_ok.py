"""Texts of different lengths in one shape, with a padding mask made on the device."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = torch_xla.device()

model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(8):
    lengths = torch.randint(4, 30, (16,)).to(device)
    x = torch.randn(16, 32, 16).to(device)
    pad = torch.arange(32, device=device)[None] >= lengths[:, None]
    optimizer.zero_grad()
    out = model(x, src_key_padding_mask=pad)
    keep = (~pad).unsqueeze(-1).float()
    loss = ((out - x).square() * keep).sum() / keep.sum()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
