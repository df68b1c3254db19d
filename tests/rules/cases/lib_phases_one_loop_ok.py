"""Train and eval phases in one loop with one line for the mark, as in the transfer learning tutorial."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
data = {
    "train": [(torch.randn(16, 32), torch.randint(0, 4, (16,))) for _ in range(4)],
    "val": [(torch.randn(16, 32), torch.randint(0, 4, (16,))) for _ in range(3)],
}
for epoch in range(3):
    for phase in ("train", "val"):
        model.train(phase == "train")
        total, right = torch.zeros((), device=device), torch.zeros((), device=device)
        for x, y in data[phase]:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                logits = model(x)
                loss = nn.functional.cross_entropy(logits, y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            total += loss.detach() * len(x)
            right += (logits.argmax(-1) == y).sum()
            torch_xla.sync()
        if phase == "train":
            schedule.step()
        print(f"{epoch} {phase} loss {total.item():.3f} accuracy {right.item() / 16 / len(data[phase]):.3f}")
