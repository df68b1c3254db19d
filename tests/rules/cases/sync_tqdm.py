"""tqdm shows the loss, a tensor, at every step: it is formatted inside tqdm."""

import io

import torch
import torch.nn as nn
import torch_xla
from tqdm import tqdm

device = torch_xla.device()
model = nn.Linear(32, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
bar = tqdm(range(8), file=io.StringIO())
for step in bar:
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    bar.set_postfix({"loss": loss.item()})
    optimizer.step()
    torch_xla.sync()
