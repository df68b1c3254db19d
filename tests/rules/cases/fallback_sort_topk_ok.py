"""Sorting, top-k, cumulative sums, gathers, einsum, one-hot: all of them have lowerings."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

device = torch_xla.device()
model = nn.Linear(32, 16).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 16, (16,)).to(device)
    optimizer.zero_grad()
    logits = model(x)
    values, index = logits.topk(4, dim=-1)
    ordered, _ = logits.sort(dim=-1, descending=True)
    chosen = logits.gather(1, index)
    gap = (ordered.cumsum(-1)[:, -1] - torch.einsum("bi,bi->b", logits, F.one_hot(y, 16).float())).mean()
    loss = F.cross_entropy(logits, y) + 0.01 * gap + 0.01 * (values - chosen).abs().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
