#!/usr/bin/env python3
"""Golden tables for tests/unit/test_policy.c: magnitudes and sub-policies as torchvision has them.

Run by hand in an environment with torch and torchvision, never by build or tests:

    python3 scripts/make_policy_golden.py tests/golden/policies.txt

Lines: "magnitude POLICY op bins width height value...", a value for each bin (none: the op has no
magnitude), and "sub TABLE index step op probability bin". POLICY and TABLE are numbers of
AutoPolicy and AutoAugmentTable in data/data.h.
"""
import sys

import torch
import torchvision
from torchvision.transforms import autoaugment as aa

NAMES = {"ShearX": "shear_x", "ShearY": "shear_y", "TranslateX": "translate_x",
         "TranslateY": "translate_y", "AutoContrast": "autocontrast"}


def name_of(op):
    return NAMES.get(op, op.lower())


def spaces():
    for bins in (31, 10, 2):
        for height, width in ((224, 224), (97, 160)):
            yield 1, bins, height, width, aa.RandAugment()._augmentation_space(
                bins, (height, width))
            yield 3, bins, height, width, aa.TrivialAugmentWide()._augmentation_space(bins)
    for height, width in ((224, 224), (32, 32)):
        yield 2, 10, height, width, aa.AutoAugment()._augmentation_space(10, (height, width))
        yield 4, 10, height, width, aa.AugMix()._augmentation_space(10, (height, width))


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print(f"# torch {torch.__version__}, torchvision {torchvision.__version__}; made by "
              "scripts/make_policy_golden.py", file=out)
        for policy, bins, height, width, space in spaces():
            for op, (magnitudes, _) in space.items():
                values = [] if magnitudes.ndim == 0 else [repr(float(v)) for v in magnitudes]
                print("magnitude", policy, name_of(op), bins, width, height, *values, file=out)
        for table, policy in enumerate((aa.AutoAugmentPolicy.IMAGENET, aa.AutoAugmentPolicy.CIFAR10,
                                        aa.AutoAugmentPolicy.SVHN)):
            for index, steps in enumerate(aa.AutoAugment(policy).policies):
                for step, (op, probability, bin_) in enumerate(steps):
                    print("sub", table, index, step, name_of(op), probability,
                          -1 if bin_ is None else bin_, file=out)


if __name__ == "__main__":
    main()
