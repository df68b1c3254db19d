"""An ensemble of four models on every batch, one mark a batch, the total read at the end."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
models = [nn.Linear(32, 4).to(device).eval() for _ in range(4)]
right = torch.zeros((), device=device)
with torch.no_grad():
    for _ in range(5):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        vote = sum(model(x).softmax(-1) for model in models)
        right += (vote.argmax(-1) == y).sum()
        torch_xla.sync()
print(right.item() / 80)
