"""A mixture of experts with shapes that don't depend on the routing."""

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
        weights, index = self.gate(x).softmax(-1).topk(2)
        combine = torch.zeros_like(self.gate(x)).scatter(-1, index, weights)
        return sum(combine[:, i, None] * expert(x) for i, expert in enumerate(self.experts))


model = MoE().to(device)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(8):
    x = torch.randn(32, 16).to(device)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
