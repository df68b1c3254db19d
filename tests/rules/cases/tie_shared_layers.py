"""Two ties, one of them between three layers; the optimizer reads a norm of each parameter."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(32, 16)
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.out = nn.Linear(16, 32, bias=False)
        self.out.weight = self.tokens.weight
        for layer in self.layers[1:]:
            layer.weight = self.layers[0].weight

    def forward(self, ids):
        h = self.tokens(ids)
        for layer in self.layers:
            h = F.gelu(layer(h))
        return self.out(h)


device = torch_xla.device()
model = Tied()
print(sum(p.numel() for p in model.parameters()))
model = model.to(device, torch.float32)
optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)
for _ in range(4):
    ids = torch.randint(0, 32, (8, 8)).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()
    torch_xla.sync()
