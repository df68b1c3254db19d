"""Three updates for each look at the environment, one mark for all of them."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
net, target = nn.Linear(8, 4).to(device), nn.Linear(8, 4).to(device)
target.load_state_dict(net.state_dict())
optimizer = torch.optim.Adam(net.parameters())
for step in range(8):
    for _ in range(3):
        state, after = torch.randn(16, 8).to(device), torch.randn(16, 8).to(device)
        reward = torch.randn(16).to(device)
        with torch.no_grad():
            goal = reward + 0.9 * target(after).max(-1).values
        loss = nn.functional.smooth_l1_loss(net(state).max(-1).values, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch_xla.sync()
    if step % 4 == 3:
        target.load_state_dict(net.state_dict())
