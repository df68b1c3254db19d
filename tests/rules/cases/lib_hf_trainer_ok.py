"""Hugging Face Trainer with a GPT-2 built from a configuration: it reads and marks by itself."""

import tempfile

import torch
import torch_xla
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.arange(16) + i
        return {"input_ids": ids % 64, "labels": ids % 64}


config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
arguments = TrainingArguments(
    tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=10, optim="adamw_torch", report_to=[],
    logging_steps=5, save_strategy="no", disable_tqdm=True,
)  # fmt: skip
print(torch_xla.device())
Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Tokens()).train()
