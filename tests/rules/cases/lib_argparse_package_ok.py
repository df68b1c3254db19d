"""A script with options, and a module of its own beside it."""

import argparse

import torch
import torch.nn as nn
import torch_xla
from _package import layers

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--fault", action="store_true")
args = parser.parse_args()
device = torch_xla.device()
model = layers.Net(fault=args.fault).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(args.steps):
    x, y = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
