"""Everything by the book: step marks by the loader, prints in a step closure, evaluation marked too."""

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def log(step, loss):
    print(step, loss.item())


def main():
    device = torch_xla.device()
    dataset = TensorDataset(torch.randn(128, 32), torch.randint(0, 4, (128,)))
    train = pl.MpDeviceLoader(DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True), device)
    test = pl.MpDeviceLoader(DataLoader(dataset, batch_size=16), device)
    model = nn.Linear(32, 4).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        model.train()
        for step, (x, y) in enumerate(train):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)
            if step % 2 == 0:
                xm.add_step_closure(log, args=(step, loss))
        model.eval()
        correct = torch.zeros((), dtype=torch.int64, device=device)
        with torch.no_grad():
            for x, y in test:
                correct += (model(x).argmax(-1) == y).sum()
        print(epoch, correct.item() / 128)


if __name__ == "__main__":
    main()
