"""A small convolutional network with batch norm and dropout."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

CLASSES = 7


def build_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, CLASSES),
    )


def build_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)


def compute_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)
