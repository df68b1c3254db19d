"""Adapters first, then the move, then an optimizer of what is left to train."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

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
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
inject(model)
model.to(device)
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20)
for _ in range(8):
    x, y = torch.randn(8, 16, device=device), torch.randint(0, 4, (8,), device=device)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_value_(trainable, 0.5)
    optimizer.step()
    scheduler.step()
    torch_xla.sync()
print({name: value.cpu().norm().item() for name, value in model.state_dict().items() if name.endswith(".b")})
