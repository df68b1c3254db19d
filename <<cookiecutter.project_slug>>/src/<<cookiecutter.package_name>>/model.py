"""The model. ToyModel is the place to put your own: train.py and the tests only build it and call it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

FEATURES = 128
HIDDEN = 64
CLASSES = 10


class ToyModel(nn.Module):
    """Two linear layers with a ReLU between them.

    Takes float32 of shape (batch, FEATURES) and gives logits of shape (batch, CLASSES).
    """

    def __init__(self, features: int = FEATURES, hidden: int = HIDDEN, classes: int = CLASSES) -> None:
        super().__init__()
        self.layer1 = nn.Linear(features, hidden)
        self.relu = nn.ReLU()
        self.layer2 = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer2(self.relu(self.layer1(x)))
        return logits


def fit_plan(batch_size: int = 64) -> tuple[Any, ...]:
    """What nox -s tpu_fit plans for: the model, its optimizer, a batch's shapes and the loss. No tensor holds data here."""
    model = ToyModel()
    optimizer = torch.optim.Adam(model.parameters())
    batch = (torch.empty(batch_size, FEATURES), torch.empty(batch_size, dtype=torch.long))
    return model, optimizer, batch, lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1])
