#!/usr/bin/env bash
# PyTorch 2.15.0, cross_entropy with class weights: the same targets, given as class numbers or as
# one-hot rows, have different losses: 1.59 against 7.44 here.
#
# With numbers the mean divides by the sum of the targets' weights, with rows (also where every row
# is one-hot) by the number of rows. So a recipe with weights whose loss is fed rows from the moment
# that mixup or CutMix is on trains with another learning rate in effect; which, depends on the
# weights' scale. label_smoothing does not change which divisor is used.
source "$(dirname "$0")/common.sh"
packages torch==2.15.0 ml_dtypes==0.6.0 numpy==2.4.6

cat > "$STATED" << 'END'
no weights, smoothing 0.0: numbers 1.7100, rows 1.7100
no weights, smoothing 0.1: numbers 1.6929, rows 1.6929
weights 1 2 3 10, smoothing 0.0: numbers 1.5934, rows 7.4359
weights 1 2 3 10, smoothing 0.1: numbers 1.5682, rows 7.3184
sum of the targets' weights / rows: 4.6667
END
"$bin/python" > "$SEEN" << 'END'
import warnings

import torch
from torch.nn.functional import cross_entropy, one_hot

warnings.simplefilter("ignore")
logits = torch.arange(24.0).reshape(6, 4).mul(0.7).sin()
classes = torch.tensor([0, 1, 1, 2, 3, 3])
rows = one_hot(classes, 4).float()
weights = torch.tensor([1.0, 2.0, 3.0, 10.0])
for name, weight in (("no weights", None), ("weights 1 2 3 10", weights)):
    for smoothing in (0.0, 0.1):
        print("%s, smoothing %.1f: numbers %.4f, rows %.4f" % (
            name, smoothing, cross_entropy(logits, classes, weight, label_smoothing=smoothing),
            cross_entropy(logits, rows, weight, label_smoothing=smoothing)))
print("sum of the targets' weights / rows: %.4f" % (weights[classes].sum() / len(classes)))
END
compare
