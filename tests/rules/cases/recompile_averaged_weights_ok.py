"""Weights are averaged from the fifth step on: three graphs more as that begins, and none after."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(32, 16)
        self.block = nn.Linear(16, 16)

    def forward(self, ids):
        h = self.tokens(ids)
        for _ in range(3):
            h = F.gelu(self.block(h))
        return F.linear(h, self.tokens.weight)


device = torch_xla.device()
model = Tied().to(device)
teacher = Tied().to(device).requires_grad_(False)
teacher.load_state_dict(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)
swa = torch.optim.swa_utils.AveragedModel(model)
for i in range(8):
    ids = torch.randint(0, 32, (8, 8)).to(device)
    optimizer.zero_grad()
    logits = model(ids).flatten(0, 1)
    loss = F.cross_entropy(logits, ids.flatten()) + F.mse_loss(logits, teacher(ids).flatten(0, 1))
    loss.backward()
    optimizer.step()
    if i >= 4:
        swa.update_parameters(model)
    torch_xla.sync()
