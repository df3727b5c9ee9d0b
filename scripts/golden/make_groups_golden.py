#!/usr/bin/env python3
"""Golden file for tests/unit/trainer/engine/rules/test_param_rules.c: a few float64 steps of
PyTorch with frozen stages
and a rate and a decay of their own for each kind of parameter, what float32 PyTorch is off there,
and how timm's --layer-decay groups the parameters of each network.

    python3 scripts/golden/make_groups_golden.py > tests/golden/groups.txt

Needs torch, torchvision and timm; never run by build or tests. Lines are "name value value ...".
"""
import collections
import math
import sys

import timm
import torch
from timm.optim import create_optimizer_v2
from torch import nn

from make_golden import CifarResNet, fill, images, labels, line

RATES = [0.004, 0.001, 0.006, 0.002, 0.005]  # of the steps: a factor must act on each
DECAY = 0.5
LAYER_DECAY = 0.75
# What timm calls the networks; those that stand for themselves have one name in both.
NETWORKS = {
    **{n: n for n in (
        "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
        "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
        "seresnet50", "resnet50d", "convnext_tiny", "convnext_small", "convnext_base",
        "convnext_large", "mobilenetv3_large_100", "mobilenetv3_small_100",
        *(f"deit_{size}_patch16_224" for size in ("tiny", "small", "base")),
        *(f"vit_{size}_patch16_224" for size in ("tiny", "small", "base", "large")),
        "vit_small_patch14_dinov2", "vit_base_patch14_dinov2",
        *(f"convnextv2_{size}" for size in ("atto", "nano", "tiny", "base")))},
    **{f + f"efficientnet_b{i}": f + f"efficientnet_b{i}" for f in ("", "tf_") for i in range(8)},
    **{f"efficientnet_v2_{s}": f"tf_efficientnetv2_{s}" for s in "sml"},
    "mobilenet_v2": "mobilenetv2_100", "mobilenet_v3_large": "mobilenetv3_large_100",
    "mobilenet_v3_small": "mobilenetv3_small_100",
    **{f"regnet_{f}_{ours}": f"regnet{f}_{theirs}" for f in "xy" for ours, theirs in (
        ("400mf", "004"), ("800mf", "008"), ("1_6gf", "016"), ("3_2gf", "032"), ("8gf", "080"),
        ("16gf", "160"), ("32gf", "320"))},
    "vit_b_16": "vit_base_patch16_224", "vit_b_32": "vit_base_patch32_224",
    "vit_l_16": "vit_large_patch16_224",
}


def groups(model):
    """optimizer.groups "fc.*: lr=10; layer3.0.*: lr=0.5 decay=2; *.bias: lr=8 decay=0.25" beside
    decay_skip torchvision (no norm decays) and freeze layer1."""
    frozen = ("conv1.", "bn1.", "layer1.")
    norms = {name + "." + p for name, m in model.named_modules()
             if isinstance(m, nn.BatchNorm2d) for p in ("weight", "bias")}
    out = []
    for name, p in model.named_parameters():
        if name.startswith(frozen):
            p.requires_grad = False
            continue
        lr, decay = 1.0, 0.0 if name in norms else 1.0
        if name.startswith("fc."):
            lr = 10.0
        elif name.startswith("layer3.0."):
            lr, decay = 0.5, 2.0
        elif name.endswith(".bias"):
            lr, decay = 8.0, 0.25
        out.append({"params": [p], "factor": lr, "weight_decay": decay * DECAY})
    return out


def losses(make, dtype=torch.float64, first=0, mkldnn=True, memory_format=torch.contiguous_format):
    """Of five steps at the changing rates, with the images in the order that begins with first."""
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    model = CifarResNet(20, 10).double().train()
    fill(model)
    order = torch.roll(torch.arange(8), first)
    x = images(8, 3, 32, mean.float().double(), std.float().double())[order]
    x, y = x.to(dtype, memory_format=memory_format), labels(8, 10)[order]
    model = model.to(dtype).to(memory_format=memory_format)
    optimizer = make(groups(model))
    values = []
    for rate in RATES:
        for g in optimizer.param_groups:
            g["lr"] = rate * g["factor"]
        optimizer.zero_grad()
        with torch.backends.mkldnn.flags(enabled=mkldnn):
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


def trains(out, name, make):
    """Its losses, and how far float32 PyTorch is off in the worst of several orders of sums."""
    want = losses(make)
    runs = [losses(make, torch.float32, first, mkldnn, memory_format)
            for first in range(8) for mkldnn in (True, False)
            for memory_format in (torch.contiguous_format, torch.channels_last)]
    line(out, name, want)
    line(out, f"{name}.float32",
         [max(abs(run[step] - value) for run in runs) for step, value in enumerate(want)])


def layers(out, ours, theirs):
    """Tensors in each group from the stem to the last layer, and how many of them decay, of the
    optimizer that timm's train.py makes with --layer-decay."""
    with torch.device("meta"):
        model = timm.create_model(theirs, num_classes=1000)
    optimizer = create_optimizer_v2(model, "sgd", lr=1, weight_decay=DECAY,
                                    layer_decay=LAYER_DECAY)
    tensors, decaying = collections.Counter(), collections.Counter()
    for g in optimizer.param_groups:
        below = round(math.log(g["lr_scale"], LAYER_DECAY))
        assert abs(g["lr_scale"] - LAYER_DECAY ** below) < 1e-15
        tensors[below] += len(g["params"])
        decaying[below] += len(g["params"]) if g["weight_decay"] else 0
    for name, counts in (("layers", tensors), ("decays", decaying)):
        out.write(" ".join([f"{ours}.{name}"] + [str(counts[i]) for i in
                                                 reversed(range(len(tensors)))]) + "\n")


def main():
    out = sys.stdout
    out.write(f"# torch {torch.__version__} timm {timm.__version__}; made by "
              "scripts/golden/make_groups_golden.py\n")
    line(out, "rates", RATES)
    trains(out, "sgd", lambda g: torch.optim.SGD(g, lr=1, momentum=0.9))
    trains(out, "adamw", lambda g: torch.optim.AdamW(g, lr=1))
    for ours, theirs in NETWORKS.items():
        layers(out, ours, theirs)


if __name__ == "__main__":
    main()
