#!/usr/bin/env python3
"""Golden numbers for tests/unit/data/augment/test_mix.c: binary cross entropy by timm,
weighted cross entropy and binary cross entropy of any number of labels by torch, all in float64.

Run by hand in an environment with torch and timm, never by build or tests:

    python3 scripts/golden/make_loss_golden.py tests/golden/loss.txt

Lines: "DATA bce|cross_entropy|multi SMOOTHING THRESHOLD SUM LAMBDA WEIGHTED loss gradient...". DATA
is small or large: logits and labels of SMALL, or of formulas that the test has too. WEIGHTED: class
k has the weight 0.5 + k/4. The loss and its gradient are those of the mean over the batch; torch
divides by the sum of the labels' weights where the labels are numbers, by the images where they are
mixed. multi: image n has class k by has(); smoothing s makes t (1 - s) + s / 2 of a target t, as
Keras' BinaryCrossentropy does.
"""
import sys

import timm
import torch
from timm.loss import BinaryCrossEntropy

SMALL = ([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]], [2, 1])
ROWS, CLASSES, LABELS = 4, 7, [3, 0, 6, 0]


def data(name):
    if name == "small":
        return torch.tensor(SMALL[0], dtype=torch.float64), torch.tensor(SMALL[1])
    logits = [((n * 31 + k * 17 + n * k * 5) % 23 - 11) / 4.0
              for n in range(ROWS) for k in range(CLASSES)]
    return torch.tensor(logits, dtype=torch.float64).view(ROWS, CLASSES), torch.tensor(LABELS)


def mixed(labels, classes, smoothing, lam):
    """The share of each label and of the one before it, smoothed as timm's mixup_target does."""
    hot = torch.nn.functional.one_hot(labels, classes).double()
    hot = hot * (1.0 - smoothing) + smoothing / classes
    return hot * lam + hot.roll(1, 0) * (1.0 - lam)


def has(n, k):
    """Whether an image has a class; image 1 has none."""
    return n != 1 and (n * 5 + k * 3 + n * k) % 4 < 2


def multi(name, smoothing, threshold, total, lam, weighted, out):
    logits, _ = data(name)
    logits.requires_grad_()
    rows, classes = logits.shape
    weight = torch.arange(classes, dtype=torch.float64) / 4 + 0.5 if weighted else None
    hot = torch.tensor([[float(has(n, k)) for k in range(classes)] for n in range(rows)],
                       dtype=torch.float64)
    hot = hot * (1.0 - smoothing) + smoothing / 2
    target = hot * lam + hot.roll(1, 0) * (1.0 - lam)
    if threshold:
        target = target.gt(threshold).double()
    value = torch.nn.BCEWithLogitsLoss(weight=weight)(logits, target) * (classes if total else 1)
    value.backward()
    print(name, "multi", smoothing, threshold, total, lam, weighted, repr(value.item()),
          *(repr(v) for v in logits.grad.flatten().tolist()), file=out)


def loss(name, kind, smoothing, threshold, total, lam, weighted, out):
    logits, labels = data(name)
    logits.requires_grad_()
    classes = logits.shape[1]
    weight = torch.arange(classes, dtype=torch.float64) / 4 + 0.5 if weighted else None
    target = labels if lam == 1 else mixed(labels, classes, smoothing, lam)
    if kind == "bce":
        value = BinaryCrossEntropy(smoothing=smoothing, target_threshold=threshold or None,
                                   sum_classes=bool(total), weight=weight)(logits, target)
    elif lam == 1:
        value = torch.nn.CrossEntropyLoss(weight=weight, label_smoothing=smoothing)(logits, target)
    else:  # smoothed above
        value = torch.nn.CrossEntropyLoss(weight=weight)(logits, target)
    value.backward()
    print(name, kind, smoothing, threshold, total, lam, weighted, repr(value.item()),
          *(repr(v) for v in logits.grad.flatten().tolist()), file=out)


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print(f"# torch {torch.__version__}, timm {timm.__version__}; made by "
              "scripts/golden/make_loss_golden.py", file=out)
        for name in ("small", "large"):
            for smoothing in (0.0, 0.1):
                for lam in (1.0, 0.7):
                    for weighted in (0, 1):
                        loss(name, "cross_entropy", smoothing, 0.0, 0, lam, weighted, out)
                        multi(name, smoothing, 0.0, 0, lam, weighted, out)
                        if lam < 1:
                            multi(name, smoothing, 0.2, 1, lam, weighted, out)
                        for threshold in (0.0, 0.2):
                            for total in (0, 1):
                                loss(name, "bce", smoothing, threshold, total, lam, weighted, out)


if __name__ == "__main__":
    main()
