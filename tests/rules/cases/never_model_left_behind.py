"""The device is an XLA device, but nothing is ever moved to it."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def main():
    device = xm.xla_device()
    print("training on", device)
    model = nn.Linear(32, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(6):
        x, y = torch.randn(16, 32), torch.randint(0, 4, (16,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch_xla.sync()


main()
