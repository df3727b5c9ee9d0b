#!/usr/bin/env python3
"""Golden numbers for tests/unit/data/augment/test_mix.c: the loss of a student that learns from a
teacher and from labels, and its gradient, by torch in float64.

Run by hand in an environment with torch, never by build or tests:

    python3 scripts/golden/make_distil_golden.py tests/golden/distil.txt

Lines: "TEMPERATURE WEIGHT SMOOTHING LAMBDA loss gradient...", of the mean over the batch. Logits of
student and teacher are formulas that the test has too; LAMBDA is the share of an image's own label,
the rest is that of its neighbour's, the image before it.
"""
import sys

import torch
from torch.nn import functional

ROWS, CLASSES, LABELS = 4, 7, [3, 0, 6, 0]


def logits(a, b, c):
    values = [((n * a + k * b + n * k * c) % 23 - 11) / 4.0
              for n in range(ROWS) for k in range(CLASSES)]
    return torch.tensor(values, dtype=torch.float64).view(ROWS, CLASSES)


def line(temperature, weight, smoothing, lam, out):
    student, teacher = logits(31, 17, 5).requires_grad_(), logits(13, 19, 3)
    hot = functional.one_hot(torch.tensor(LABELS), CLASSES).double()
    target = (1 - smoothing) * (lam * hot + (1 - lam) * hot.roll(1, 0)) + smoothing / CLASSES
    hard = functional.cross_entropy(student, target)
    soft = functional.kl_div(functional.log_softmax(student / temperature, 1),
                             functional.log_softmax(teacher / temperature, 1),
                             reduction="batchmean", log_target=True) * temperature ** 2
    loss = (1 - weight) * hard + weight * soft
    loss.backward()
    print(temperature, weight, smoothing, lam, repr(loss.item()),
          *(repr(v) for v in student.grad.flatten().tolist()), file=out)


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print(f"# torch {torch.__version__}; made by scripts/golden/make_distil_golden.py",
              file=out)
        for temperature, weight in ((4.0, 0.5), (1.0, 0.9), (20.0, 1.0)):
            for smoothing in (0.0, 0.1):
                for lam in (1.0, 0.7):
                    line(temperature, weight, smoothing, lam, out)


if __name__ == "__main__":
    main()
