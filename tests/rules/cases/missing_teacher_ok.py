"""Self-distillation: a teacher sees three views without gradients at each step, one mark a step."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
student, teacher = nn.Linear(16, 8).to(device), nn.Linear(16, 8).to(device)
teacher.load_state_dict(student.state_dict())
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(8):
    views = [torch.randn(16, 16).to(device) for _ in range(3)]
    with torch.no_grad():
        targets = [teacher(view).softmax(-1) for view in views]
    loss = sum(-(t * student(v).log_softmax(-1)).sum(-1).mean() for t, v in zip(targets, views))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(0.99).add_(fast, alpha=0.01)
    if step % 4 == 0:
        print(step, loss.item())
    torch_xla.sync()
