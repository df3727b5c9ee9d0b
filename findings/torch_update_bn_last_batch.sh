#!/usr/bin/env bash
# PyTorch 2.15.0, torch.optim.swa_utils.update_bn: every batch counts the same, however small. Two
# pictures in the last batch weigh as much as the 256 of the one before.
#
# 256 values of 0 and 2 of 100 have mean 0.78 and variance 77; update_bn over batches of 256 finds
# mean 50 and variance 0, since it takes the mean of the batches' means and of the variances within
# each batch. The variance between batches is always left out. Batches of equal size have the right
# mean.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
all values: mean 0.7752, variance 77.2178
batches of 256: mean 50.0000, variance 0.0000
batches of 258: mean 0.7752, variance 77.2178
batches of 129: mean 0.7752, variance 76.9138
END
"$bin/python" > "$SEEN" << 'END'
import warnings

import torch
from torch.optim.swa_utils import update_bn

warnings.simplefilter("ignore")
values = torch.cat([torch.zeros(256, 1), torch.full((2, 1), 100.0)])
print("all values: mean %.4f, variance %.4f" % (values.mean(), values.var()))
for batch in (256, 258, 129):
    norm = torch.nn.BatchNorm1d(1)
    update_bn(torch.utils.data.DataLoader(values, batch_size=batch), torch.nn.Sequential(norm))
    print("batches of %d: mean %.4f, variance %.4f" % (
        batch, norm.running_mean, norm.running_var))
END
compare
