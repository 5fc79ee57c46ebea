"""Steps of the default `sr` model in PyTorch: micro-batches of 25 and 7 crops of 32 x 32, 16 channels, 4 blocks, Adam.

Usage: sr_pytorch.py THREADS STEPS [MICRO_BATCH ...]; prints the medians of the second half of the steps: milliseconds, and those of CPU time.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.second(F.relu(self.first(x)))


class Edsr(nn.Module):
    def __init__(self, channels=16, blocks=4):
        super().__init__()
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        self.tail = nn.Conv2d(channels, 12, 3, padding=1)
        nn.init.zeros_(self.tail.weight)

    def forward(self, images):
        skip = F.interpolate(images, scale_factor=2, mode="bicubic")
        features = self.head(images)
        return F.pixel_shuffle(self.tail(self.blocks(features) + features), 2) + skip


def main():
    threads, steps, *sizes = map(int, sys.argv[1:])
    sizes = sizes or [25, 7]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Edsr()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    seconds, busy = [], []
    for _ in range(steps):
        begun, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        for n in sizes:
            low, high = torch.rand(n, 3, 32, 32), torch.rand(n, 3, 64, 64)
            ((model(low) - high).abs().mean() * (n / sum(sizes))).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begun)
        busy.append(time.process_time() - used)
    late, busy = (sorted(it[len(it) // 2 :]) for it in (seconds, busy))
    print(f"torch {torch.__version__}, {threads} threads, {sizes}: {1e3 * late[len(late) // 2]:.1f} ms, CPU {1e3 * busy[len(busy) // 2]:.1f} ms")


main()
