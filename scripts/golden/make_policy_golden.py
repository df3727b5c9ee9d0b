#!/usr/bin/env python3
"""Golden tables for tests/unit/data/augment/test_policy.c: magnitudes and sub-policies as
torchvision has them,
and what timm's RandAugment of increasing severity gives its ops.

Run by hand in an environment with torch, torchvision and timm, never by build or tests:

    python3 scripts/golden/make_policy_golden.py tests/golden/policies.txt

Lines: "magnitude POLICY op bins width height value...", a value for each bin (none: the op has no
magnitude), "sub TABLE index step op probability bin", and "timm op width height negative value..."
for the magnitudes TIMM_MAGNITUDES (none: the op takes nothing). POLICY and TABLE are numbers of
AutoPolicy and AutoAugmentTable in data/data.h.
"""
import sys

import timm
import torch
import torchvision
from timm.data import auto_augment as ta
from torchvision.transforms import autoaugment as aa

NAMES = {"ShearX": "shear_x", "ShearY": "shear_y", "TranslateX": "translate_x",
         "TranslateY": "translate_y", "AutoContrast": "autocontrast"}

TIMM_NAMES = {"SolarizeAdd": "solarize_add", "ShearX": "skew_x", "ShearY": "skew_y",
              "TranslateXRel": "slide_x", "TranslateYRel": "slide_y"}
TIMM_MAGNITUDES = (0.0, 0.25, 1.0, 3.7, 5.0, 6.0, 7.0, 8.37, 9.0, 9.999, 10.0)


def timm_value(op, magnitude, negative, width, height):
    """The argument of the op; a draw decides its sign."""
    ta.random.random = lambda: 0.75 if negative else 0.25
    value = ta.LEVEL_TO_ARG[op](magnitude, {})[0]
    if op.startswith("Translate"):
        value *= width if op == "TranslateXRel" else height
    return float(value)


def timm_lines(out):
    for op in ta.rand_augment_choices("", increasing=True):
        name = TIMM_NAMES.get(op, op.replace("Increasing", "").lower())
        values = () if ta.LEVEL_TO_ARG[op] is None else TIMM_MAGNITUDES
        for negative in (0, 1):
            for width, height in ((224, 224), (97, 160)):
                print("timm", name, width, height, negative,
                      *(repr(timm_value(op, m, negative, width, height)) for m in values), file=out)


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
        print(f"# torch {torch.__version__}, torchvision {torchvision.__version__}, "
              f"timm {timm.__version__}; made by scripts/golden/make_policy_golden.py", file=out)
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
        timm_lines(out)


if __name__ == "__main__":
    main()
