"""torch_xla.launch, and a read in every step of it."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def _mp_fn(index):
    device = torch_xla.device()
    model = nn.Linear(32, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for _ in range(8):
        x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        history.append(loss.cpu())
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)


if __name__ == "__main__":
    torch_xla.launch(_mp_fn, args=())
