#!/usr/bin/env python3
"""Golden file for tests/unit/models/test_positions.c: positions of patches interpolated by
torchvision's
interpolate_embeddings and timm's resample_abs_pos_embed. Values come from make_golden.py's counter
formula, which the C test computes too. Run by hand in an environment with torch, torchvision and
timm, never by build or tests:

    python3 scripts/golden/make_positions_golden.py > tests/golden/positions.txt

LIBRARY.SIDE.NEW  the positions [1 + NEW * NEW, CHANNELS], of those of SIDE * SIDE patches
"""
import sys

import timm
import torch
from torchvision.models.vision_transformer import interpolate_embeddings

from make_golden import line, mix, rounded

CHANNELS, STREAM = 2, 31
SIZES = ((4, 7), (7, 4), (14, 16), (14, 5), (3, 1), (1, 3))


def main():
    print(f"# torch {torch.__version__}, timm {timm.__version__}; made by "
          "scripts/golden/make_positions_golden.py")
    for side, new in SIZES:
        u = mix(STREAM, (1 + side * side) * CHANNELS)
        values = torch.from_numpy(rounded(2 * u - 1)).float().reshape(1, -1, CHANNELS)
        state = interpolate_embeddings(new, 1, {"encoder.pos_embedding": values})
        for name, made in (("torchvision", state["encoder.pos_embedding"]),
                           ("timm", timm.layers.resample_abs_pos_embed(values, [new, new]))):
            line(sys.stdout, f"{name}.{side}.{new}", made.flatten().tolist())


if __name__ == "__main__":
    main()
