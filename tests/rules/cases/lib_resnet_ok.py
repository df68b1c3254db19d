"""torchvision's ResNet-18 on tiny images, SGD with momentum and a schedule."""

import torch
import torch.nn as nn
import torch_xla
from torchvision.models import resnet18

device = torch_xla.device()
model = resnet18(num_classes=4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
for step in range(5):
    x, y = torch.randn(8, 3, 32, 32).to(device), torch.randint(0, 4, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    schedule.step()
    torch_xla.sync()
print(loss.item())
