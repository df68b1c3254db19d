"""A part of lib_argparse_package_ok.py."""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x):
        x = torch.relu(self.first(x))
        if self.fault and x.abs().max() > 1e9:  # a read in every forward pass
            x = x / x.abs().max()
        return self.second(x)
