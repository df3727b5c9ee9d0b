#!/usr/bin/env bash
# PyTorch 2.15.0, all_reduce over gloo: elements with the same values on every rank get different
# results, depending on their place in the vector.
#
# It looks as if each part of the vector is summed from another rank on. Three ranks that bring 1e8,
# 1 and -1e8 for each of 1,000 elements get 0 for 666 of them and 1 for 334. In bfloat16, where
# rounding happens after each rank, 1 and twice 1/256 makes 1 or 1.0078. Maxima suffer too: where
# one rank brings NaN for every element, it is lost in a third to two thirds of them. All ranks get
# the same vector.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
sum of 1e+08, 1, -1e+08, float32: 666 times 0, 334 times 1; ranks agree
sum of 1, 0.003906, 0.003906, bfloat16: 666 times 1, 334 times 1.0078; ranks agree
maximum of nan, 1, 2, float32: 666 times 2, 334 times nan; ranks agree
maximum of 1, nan, 2, float32: 334 times 1, 332 times 2, 334 times nan; ranks agree
maximum of 1, 2, nan, float32: 668 times 2, 332 times nan; ranks agree
END
cat > ranks.py << 'END'
import collections
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS = 3
SUM, MAX, NAN = dist.ReduceOp.SUM, dist.ReduceOp.MAX, float("nan")


def main(rank, folder):
    dist.init_process_group("gloo", "file://" + folder + "/meet", rank=rank, world_size=RANKS)
    for values, kind, op in (
        ((1e8, 1.0, -1e8), torch.float32, SUM),
        ((1.0, 2**-8, 2**-8), torch.bfloat16, SUM),
        ((NAN, 1.0, 2.0), torch.float32, MAX),
        ((1.0, NAN, 2.0), torch.float32, MAX),
        ((1.0, 2.0, NAN), torch.float32, MAX),
    ):
        x = torch.full((1000,), values[rank], dtype=kind)
        dist.all_reduce(x, op)
        everyone = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(everyone, x)
        same = all(torch.equal(other, x.nan_to_num(-1)) for other in map(
            lambda y: y.nan_to_num(-1), everyone))
        counts = sorted(collections.Counter("%.5g" % v for v in x.tolist()).items())
        if rank == 0:
            print("%s of %s, %s: %s; ranks %s" % (
                "sum" if op == SUM else "maximum", ", ".join("%.4g" % v for v in values),
                str(kind)[6:], ", ".join("%d times %s" % (n, v) for v, n in counts),
                "agree" if same else "differ"))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, (sys.argv[1],), RANKS)
END
GLOO_SOCKET_IFNAME=lo "$bin/python" ranks.py "$SCRATCH" > "$SEEN"
compare
