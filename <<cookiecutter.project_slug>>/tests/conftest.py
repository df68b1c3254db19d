"""What all tests share: PJRT's CPU device, and the simulator's fixture."""

import os

os.environ.setdefault("PJRT_DEVICE", "CPU")  # before torch_xla looks for a device

import torch_xla

# The first backward pass of a process sizes autograd's queues by the devices known until then, so XLA comes first:
# after a backward pass in eager PyTorch alone, every later one on XLA would die of an internal assertion.
torch_xla.device()
