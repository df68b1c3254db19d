"""A GPT-2 built from a configuration and moved by hand: its head is tied to its embedding."""

import torch
import torch_xla
from transformers import GPT2Config, GPT2LMHeadModel

device = torch_xla.device()
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
model.to(device)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(5):
    tokens = torch.randint(0, 64, (8, 16)).to(device)
    optimizer.zero_grad()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    torch_xla.sync()
