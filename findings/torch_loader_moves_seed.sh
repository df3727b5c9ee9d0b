#!/usr/bin/env bash
# PyTorch 2.15.0: to read validation data, unshuffled and without workers, moves the global random
# state. A run that evaluates twice as often trains on another order of pictures.
#
# Each iterator of a DataLoader draws one number for its workers' seeds, also where there are none.
# With a generator of its own for the evaluation's loader the training does not notice it.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
evaluations between epochs: 0; pictures 6 1 0 3 4 5 7 2 | 0 5 2 6 3 4 1 7
evaluations between epochs: 1; pictures 6 1 0 3 4 5 7 2 | 5 6 7 2 0 3 4 1
evaluations between epochs: 2; pictures 6 1 0 3 4 5 7 2 | 7 1 5 4 6 0 2 3
2, with a generator of their own: 6 1 0 3 4 5 7 2 | 0 5 2 6 3 4 1 7
END
"$bin/python" > "$SEEN" << 'END'
import warnings

import torch
from torch.utils.data import DataLoader

warnings.simplefilter("ignore")


def orders(evaluations, generator=None):
    """The order of the pictures in two epochs, with evaluations between them."""
    torch.manual_seed(1)
    train = DataLoader(range(8), batch_size=None, shuffle=True)
    seen = []
    for _ in range(2):
        seen.append(" ".join(str(int(i)) for i in train))
        for _ in range(evaluations):
            list(DataLoader(range(8), batch_size=None, shuffle=False, generator=generator))
    return " | ".join(seen)


for count in (0, 1, 2):
    print("evaluations between epochs: %d; pictures %s" % (count, orders(count)))
print("2, with a generator of their own: %s" % orders(2, torch.Generator()))
END
compare
