# The loops of bench/eager in PyTorch, eagerly: the same layers, sizes and optimiser. Prints one line of JSON.
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(256, eps=1e-3), nn.LayerNorm(256, eps=1e-3)
        self.attention = nn.MultiheadAttention(256, 4, batch_first=True)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.blocks(x).mean(1))


def make(name):
    if name == 'mlp':
        return (128, 784), nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    if name == 'lenet':
        return (128, 1, 28, 28), nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return (8, 128, 256), Transformer()


parser = argparse.ArgumentParser()
parser.add_argument('case')
parser.add_argument('--seconds', type=float, default=2)
parser.add_argument('--threads', type=int, default=2)
arguments = parser.parse_args()
torch.set_num_threads(arguments.threads)
shape, net = make(arguments.case)
x = torch.rand(*shape)
y = torch.arange(shape[0]) % 10
optimiser = torch.optim.Adam(net.parameters())


def step():
    optimiser.zero_grad(set_to_none=True)
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimiser.step()
    return loss.item()


for _ in range(3):
    step()
times, start = [], time.monotonic()
while time.monotonic() - start < arguments.seconds or len(times) < 5:
    before = time.monotonic()
    step()
    times.append((time.monotonic() - before) * 1e3)
print(json.dumps({'eager_ms': statistics.median(times), 'version': torch.__version__}))
