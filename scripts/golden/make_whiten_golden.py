#!/usr/bin/env python3
"""tests/golden/whiten.txt for tests/unit/models/test_whiten.c: filters that whiten 2x2 patches of
images,
by torch.linalg.eigh in float64. Run by hand, with torch, never by build or tests:

    python3 scripts/golden/make_whiten_golden.py tests/golden
"""
import sys

import numpy as np
import torch
from make_golden import line, mix

IMAGES, SIDE, CHANNELS = 20, 16, 3
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).double()
STD = torch.tensor([0.2470, 0.2435, 0.2616]).double()


def images():
    """As make_image() of the test: blocks of 4 x 3 pixels and grain, less with each channel."""
    block = np.floor(mix(11, IMAGES * SIDE * SIDE) * 256).reshape(IMAGES, SIDE, SIDE)
    grain = np.floor(mix(12, IMAGES * SIDE * SIDE * CHANNELS) * 256)
    y, x, c = np.meshgrid(np.arange(SIDE), np.arange(SIDE), np.arange(CHANNELS), indexing="ij")
    blocks = block[:, y // 3, x // 4]
    grain = grain.reshape(IMAGES, SIDE, SIDE, CHANNELS)
    return torch.from_numpy(np.floor((blocks * (6 - c) + grain * (1 + c)) / 8))


def main():
    x = ((images() / 255 - MEAN) / STD).permute(0, 3, 1, 2)
    patches = x.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values + 5e-4).sqrt()).T.flip(0)
    with open(f"{sys.argv[1]}/whiten.txt", "w") as out:
        out.write(f"# torch {torch.__version__}\n")
        line(out, "filters", filters.reshape(-1))


if __name__ == "__main__":
    main()
