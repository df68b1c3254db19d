"""Nests of tensors: what a batch is, and what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def map_tensors(change: Callable[[torch.Tensor], Any], nest: Any) -> Any:
    """Apply a function to every tensor in nested tuples, lists and dictionaries. Whatever else is in them stays."""
    if isinstance(nest, torch.Tensor):
        return change(nest)
    if isinstance(nest, Mapping):
        return {key: map_tensors(change, value) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):  # a named tuple
        return type(nest)(*(map_tensors(change, value) for value in nest))
    if isinstance(nest, (tuple, list)):
        return type(nest)(map_tensors(change, value) for value in nest)
    return nest
