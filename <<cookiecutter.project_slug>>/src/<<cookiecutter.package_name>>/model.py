"""The model, its loss and its optimizer. ToyModel is the place to put your own.

train.py and the tests know build_model(), build_optimizer() and compute_loss(), and nothing else of this file;
nox -s tpu_fit knows fit_plan(). What is about ToyModel itself is tested in tests/test_toy_model.py, which goes with it.
"""

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


def build_model() -> nn.Module:
    """The model, on the CPU; train.py moves it."""
    return ToyModel()


def build_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """The optimizer of a model that is on its device already."""
    return torch.optim.Adam(model.parameters(), lr=learning_rate)


def compute_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """The loss of one batch, as data.py yields it, by now on the model's device. Call the model here, and read no value."""
    x, y = batch
    return nn.functional.cross_entropy(model(x), y)


def fit_plan(batch_size: int = 64) -> tuple[Any, ...]:
    """What nox -s tpu_fit plans for: the model, its optimizer, a batch's shapes and the loss. No tensor holds data here."""
    model = build_model()
    batch = (torch.empty(batch_size, FEATURES), torch.empty(batch_size, dtype=torch.long))
    return model, build_optimizer(model, 1e-3), batch, compute_loss
