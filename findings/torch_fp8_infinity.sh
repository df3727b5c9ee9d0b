#!/usr/bin/env bash
# PyTorch 2.15.0 on the CPU: infinity cast to float8_e4m3fn is 448, a finite number; cast to
# float8_e5m2 it stays infinity, and to the two fnuz types it is NaN. ml_dtypes 0.6.0 (NumPy, JAX)
# makes NaN of what is too large for e4m3fn.
#
# So a gradient that has overflowed passes through e4m3fn unseen, in one framework and not in the
# other, and the same array gives two files of other bytes. e4m3fn has no infinity; PyTorch clamps,
# for every value above 448; e5m2 it does not clamp. (The largest e4m3fnuz is 240.)
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
float8_e4m3fn of 448 500 100000 inf: torch 448 448 448 448, ml_dtypes 448 nan nan nan
float8_e5m2 of 448 500 100000 inf: torch 448 512 inf inf, ml_dtypes 448 512 inf inf
float8_e4m3fnuz of 448 500 100000 inf: torch nan nan nan nan, ml_dtypes nan nan nan nan
float8_e5m2fnuz of 448 500 100000 inf: torch 448 512 nan nan, ml_dtypes 448 512 nan nan
END
ATEN_CPU_CAPABILITY=default "$bin/python" > "$SEEN" << 'END'
import warnings

import ml_dtypes
import numpy as np
import torch

warnings.simplefilter("ignore")
x = np.array([448, 500, 100000, np.inf], np.float32)


def words(values):
    return " ".join("%g" % value for value in values)


for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
    ours = torch.from_numpy(x).to(getattr(torch, name)).float().tolist()
    theirs = x.astype(getattr(ml_dtypes, name)).astype(np.float32).tolist()
    print("%s of %s: torch %s, ml_dtypes %s" % (name, words(x), words(ours), words(theirs)))
END
compare
