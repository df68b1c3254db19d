"""Adapters are put in after the optimizer was built, and what it holds is frozen: it trains nothing."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(rank, base.in_features, device=base.weight.device) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


def inject(model):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            child.requires_grad_(False)
            setattr(model, name, LoRA(child))
        else:
            inject(child)


device = torch_xla.device()
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
inject(model)
for _ in range(6):
    x, y = torch.randn(8, 16, device=device), torch.randint(0, 4, (8,), device=device)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    torch_xla.sync()
