"""A small actor-critic: rollouts one state at a time without gradients, then epochs of minibatches."""

import torch
import torch.nn as nn
import torch_xla

device = torch_xla.device()
actor = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
for iteration in range(2):
    states, actions = [], []
    with torch.no_grad():
        for t in range(8):
            state = torch.randn(16, 8).to(device)
            action = actor(state).argmax(-1)
            torch_xla.sync()
            states.append(state)
            actions.append(action)
    states, actions = torch.cat(states), torch.cat(actions)
    returns = torch.randn(128).to(device)
    torch_xla.sync()
    for epoch in range(2):
        for start in range(0, 128, 32):
            index = torch.arange(start, start + 32).to(device)
            s, a, r = states[index], actions[index], returns[index]
            value = critic(s).squeeze(-1)
            logp = actor(s).log_softmax(-1).gather(1, a[:, None]).squeeze(1)
            loss = -(logp * (r - value.detach())).mean() + (r - value).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
    print(iteration, loss.item())
