"""A mixture of experts that gathers the rows of each expert: shapes that depend on values."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = torch_xla.device()


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (choice == i).nonzero().squeeze(-1)
            out = out.index_add(0, rows, expert(x[rows]))
        return out


model = MoE().to(device)
optimizer = torch.optim.AdamW([p for n, p in model.named_parameters() if "gate" not in n])
for step in range(6):
    x = torch.randn(32, 16).to(device)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
