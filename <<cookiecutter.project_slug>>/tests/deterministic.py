"""The model without what each device draws for itself, for the tests that compare devices."""

from __future__ import annotations

from torch import nn

from << cookiecutter.package_name >>.model import build_model


def build_deterministic_model() -> nn.Module:
    """The model with dropout switched off.

    Batch norm goes on as in training: in eval mode torch_xla 2.9 refuses its backward pass ("the size of offset factor is 0").
    """
    model = build_model().eval()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.train()
    return model
