#!/usr/bin/env python3
"""Loss and every gradient of one step of ResNet-50 at 224 px, by convoy and by PyTorch, from the
same weights on the same images, in fp32 and 16 bits; both are held against PyTorch in float64.

A step of plain SGD with a learning rate of 2^19 leaves convoy's gradients in its weights, to within
2^-24 of themselves. Convoy passes in a precision if

- its loss is no farther from float64's than SLACK times PyTorch's in that precision, or than SLACK
  roundings of that precision;
- the error of its gradients (|g - g64| / |g64| of a tensor) is in the middle at most MIDDLE times
  PyTorch's, and of each tensor at most SLACK times PyTorch's of the same tensor or in the middle,
  whichever is larger, but nearer to PyTorch's than to 1, which is what no gradient at all would
  have. Below FLIP (in the middle a fifth of it) nothing is too far: a ReLU whose
  input is within rounding of zero passes its gradient on one side and not on the other, which on
  few images moves all gradients below it by some thousandths.

Needs torch, torchvision, Pillow and safetensors; no part of build or tests. On the CPU convoy takes
fp32 and bf16 alone, and a smaller network is wise.

    python3 scripts/bench/check_gradients.py SCRATCH
        [--precision fp32 bf16 fp16 fp16:device.fuse=all]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

CLASSES, LR, SCALE = 1000, 2.0**19, 1024.0
SLACK, MIDDLE, FLIP = 4, 2, 0.01
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
ROUNDING = {"fp32": 2.0**-24, "bf16": 2.0**-9, "fp16": 2.0**-12}


def make_images(folder, count, size):
    """Writes PNG files, one class each, of smooth noise as photographs have it; returns them as a
    batch with labels. All 1000 folders are there, so that the last layer is."""
    torch.manual_seed(2)
    images = sum(nn.functional.interpolate(torch.rand(count, 3, n, n), size, mode="bilinear")
                 for n in (2, 7, 28, size)) / 4
    pixels = (images * 255).round().to(torch.uint8)
    labels = torch.randperm(CLASSES)[:count]
    for label in range(CLASSES):
        os.makedirs(os.path.join(folder, f"{label:04d}"))
    for picture, label in zip(pixels, labels.tolist(), strict=True):
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(
            os.path.join(folder, f"{label:04d}", "0.png"))
    x = torchvision.transforms.functional.normalize(pixels.float() / 255, MEAN, STD)
    return x, labels


def torch_step(args, weights, x, y, dtype):
    """Loss and gradients in float64 on the host. dtype: what autocast takes; None: fp32 without
    tf32; float64: everything in it."""
    model = torchvision.models.get_model(args.model, num_classes=CLASSES)
    model.load_state_dict(weights)
    model = model.train().to(args.device, memory_format=torch.channels_last)
    double = dtype == torch.float64
    model, x = (model.double(), x.double()) if double else (model, x)
    x = x.to(args.device).contiguous(memory_format=torch.channels_last)
    with torch.autocast(args.device, dtype or torch.float16, enabled=not double and bool(dtype)):
        loss = nn.functional.cross_entropy(model(x), y.to(args.device))
    scale = SCALE if dtype == torch.float16 else 1.0
    (loss * scale).backward()
    return loss.item(), {name: p.grad.double().cpu() / scale
                         for name, p in model.named_parameters()}


def convoy_step(args, weights, count, variant):
    """The same by convoy; variant: PRECISION, then :key=value."""
    precision, *settings = variant.split(":")
    run, empty = os.path.join(args.scratch, "run"), os.path.join(args.scratch, "empty.yaml")
    shutil.rmtree(run, ignore_errors=True)
    open(empty, "w").close()
    keys = {"model.name": args.model, "model.classes": CLASSES,
            "model.init": os.path.join(args.scratch, "weights.safetensors"),
            "data.train": os.path.join(args.scratch, "images"), "data.allow_empty_classes": "true",
            "data.augment": "none",
            "data.image_size": args.size, "data.eval_resize": args.size,
            "data.mean": ",".join(map(str, MEAN)), "data.std": ",".join(map(str, STD)),
            "train.batch_per_rank": count, "train.max_steps": 1, "train.precision": precision,
            "train.loss_scale": SCALE, "optimizer.name": "sgd", "optimizer.lr": LR,
            "optimizer.lr_scaling": "none", "optimizer.momentum": 0, "optimizer.nesterov": "false",
            "optimizer.weight_decay": 0, "schedule.name": "constant", "schedule.warmup_epochs": 0,
            "log.every": 1, "device.backend": args.backend or args.device,
            "device.plan_cache": args.plan_cache,
            "run.dir": run}
    command = [args.convoy, "train", empty, *(f"{k}={v}" for k, v in keys.items()), *settings]
    after = os.path.join(args.scratch, "after.safetensors")
    for words in (command, [args.convoy, "export", run, after]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr.strip()}")
    with open(os.path.join(run, "metrics.jsonl")) as file:
        loss = [r["loss"] for r in map(json.loads, file) if r["event"] == "step"][0]
    moved = load_file(after)
    return loss, {name: (weights[name].double() - moved[name].double()) / LR
                  for name in moved if name in weights}


def errors(gradients, exact):
    return {name: ((gradients[name] - g).norm() / g.norm()).item() for name, g in exact.items()}


def allowed(theirs, middle):
    return max(min(SLACK * max(theirs, middle), (1 + theirs) / 2), FLIP)


def judge(variant, exact, theirs, ours):
    """Prints a line and what is too far; true if nothing is."""
    rounding = ROUNDING[variant.split(":", maxsplit=1)[0]]
    torch_errors, own = errors(theirs[1], exact[1]), errors(ours[1], exact[1])
    middle, own_middle = statistics.median(torch_errors.values()), statistics.median(own.values())
    loss, own_loss = (abs(side[0] / exact[0] - 1) for side in (theirs, ours))
    bad = [f"{name}: {own[name]:.2e}, PyTorch's {torch_errors[name]:.2e}" for name in own
           if not own[name] <= allowed(torch_errors[name], middle)]
    if not own_loss <= SLACK * max(loss, rounding):
        bad.append(f"the loss: {own_loss:.2e}, PyTorch's {loss:.2e}")
    if not own_middle <= max(MIDDLE * middle, FLIP / 5):
        bad.append(f"the middle: {own_middle:.2e}, PyTorch's {middle:.2e}")
    worst = max(own, key=own.get)
    print(f"{variant}: loss {ours[0]:.6f}, off by {own_loss:.1e} (PyTorch {loss:.1e}); {len(own)} "
          f"gradients, off by {own_middle:.2e} in the middle (PyTorch {middle:.2e}), at most "
          f"{own[worst]:.2e} ({worst}; PyTorch {max(torch_errors.values()):.2e})", flush=True)
    for line in bad:
        print(f"  FAIL {variant}: too far: {line}", flush=True)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("scratch")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--backend", help="where convoy runs; else as --device")
    parser.add_argument("--plan-cache", default="")
    parser.add_argument("--precision", nargs="+",
                        default=["fp32", "bf16", "fp16", "fp16:device.fuse=all"])
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    shutil.rmtree(args.scratch, ignore_errors=True)
    x, y = make_images(os.path.join(args.scratch, "images"), args.batch, args.size)
    torch.manual_seed(1)
    weights = torchvision.models.get_model(args.model, num_classes=CLASSES).state_dict()
    save_file(weights, os.path.join(args.scratch, "weights.safetensors"))
    exact, theirs, passed = torch_step(args, weights, x, y, torch.float64), {}, 0
    for variant in args.precision:
        name = variant.split(":", maxsplit=1)[0]
        if name not in theirs:
            theirs[name] = torch_step(args, weights, x, y, DTYPES[name])
        passed += judge(variant, exact, theirs[name], convoy_step(args, weights, len(y), variant))
    sys.exit(passed < len(args.precision))


if __name__ == "__main__":
    main()
