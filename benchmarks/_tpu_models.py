"""The four training steps that the compiler bench measures: `python _tpu_models.py NAME [--steps N]`.

Each is an ordinary PyTorch/XLA program, so that `xla_sim run` captures it like anybody's. Nothing is downloaded: the
Hugging Face models are built from their configurations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch_xla
from torch import Tensor, nn

Loss = Callable[[], Tensor]


def toy() -> tuple[nn.Module, Callable[[nn.Module, torch.device], Tensor]]:
    """The template's own ToyModel, batch 64."""
    model = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def loss(model: nn.Module, device: torch.device) -> Tensor:
        x = torch.randn(64, 128).to(device)
        y = torch.randint(0, 10, (64,)).to(device)
        return nn.functional.cross_entropy(model(x), y)

    return model, loss


def resnet18() -> tuple[nn.Module, Callable[[nn.Module, torch.device], Tensor]]:
    """torchvision's ResNet-18 on 32 images of 64 x 64: the size that the compile times of the bench are for."""
    import torchvision

    def loss(model: nn.Module, device: torch.device) -> Tensor:
        x = torch.randn(32, 3, 64, 64).to(device)
        y = torch.randint(0, 1000, (32,)).to(device)
        return nn.functional.cross_entropy(model(x), y)

    return torchvision.models.resnet18(num_classes=1000), loss


def gpt2() -> tuple[nn.Module, Callable[[nn.Module, torch.device], Tensor]]:
    """GPT-2's width and vocabulary with 4 layers, 8 sequences of 128 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, use_cache=False)

    def loss(model: nn.Module, device: torch.device) -> Tensor:
        ids = torch.randint(0, config.vocab_size, (8, 128)).to(device)
        out: Tensor = model(input_ids=ids, labels=ids).loss
        return out

    return GPT2LMHeadModel(config), loss


def bert() -> tuple[nn.Module, Callable[[nn.Module, torch.device], Tensor]]:
    """BERT-base with its masked-language-model head, 8 sequences of 128 tokens."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig()

    def loss(model: nn.Module, device: torch.device) -> Tensor:
        ids = torch.randint(0, config.vocab_size, (8, 128)).to(device)
        out: Tensor = model(input_ids=ids, labels=ids).loss
        return out

    return BertForMaskedLM(config), loss


MODELS = {"toy": toy, "resnet18": resnet18, "gpt2": gpt2, "bert": bert}


def main() -> None:
    """Train the chosen model for a few steps on whatever device PyTorch/XLA has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch_xla.device()
    model, loss_of = MODELS[args.model]()
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = loss_of(model, device)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print(f"{args.model}: {args.steps} steps, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
