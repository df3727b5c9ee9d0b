#!/usr/bin/env python3
"""How far does training in bf16 stray from fp32, here and in PyTorch? A network from the same
weights on the same images, all of them in every step and none augmented, so that a step is the same
whatever their order, and nothing dropped; SGD with momentum. Prints the loss of every step in fp32
and bf16 by both, and ends with 1 unless convoy's bf16 stays as near to its fp32 as PyTorch's
autocast does to its own: by the mean and by the largest relative difference of losses, with a half
of slack.

Needs torch, torchvision and safetensors (pip); no part of build or tests. On a CPU without AVX-512
device.emulate is taken.

    python3 scripts/bench/compare_bf16.py FOLDER [--convoy ./convoy] [--steps 50] [--images 64]
        [--model resnet18] [--lr 0.02] [--only-fp32]

With --only-fp32 no bf16 is trained: it ends with 1 unless the losses of all steps in fp32 stray
from PyTorch's by at most 1e-4 or twice as far as PyTorch's own do from each other when the images
of the batch come in three other orders, mean and largest.

FOLDER has a folder of JPEG files for each class; of the first eight the first few are taken, scaled
to 64 pixels.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from torch import nn

CLASSES, SIZE, MOMENTUM = 8, 64, 0.9
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SLACK, ORDERS = 1.5, 3


def make_images(folder, count, out):
    """Writes PNG files, which every decoder reads alike; returns them as a batch."""
    pixels, labels = [], []
    for label, name in enumerate(sorted(os.listdir(folder))[:CLASSES]):
        os.makedirs(os.path.join(out, name))
        for i, file in enumerate(sorted(os.listdir(os.path.join(folder, name)))[:count // CLASSES]):
            image = Image.open(os.path.join(folder, name, file)).convert("RGB").resize((SIZE, SIZE))
            image.save(os.path.join(out, name, f"{i}.png"))
            pixels.append(torchvision.transforms.functional.to_tensor(image))
            labels.append(label)
    x = torchvision.transforms.functional.normalize(torch.stack(pixels), MEAN, STD)
    return x, torch.tensor(labels)


def make_network(name):
    if name in torchvision.models.list_models():
        return torchvision.models.get_model(name, num_classes=CLASSES)
    import timm  # for its names alone

    size = {"img_size": SIZE} if "patch" in name else {}
    return timm.create_model(name, num_classes=CLASSES, **size)


def train_torch(args, weights, x, y, bf16):
    model = make_network(args.model)
    model.load_state_dict(weights)
    model.train()
    for module in model.modules():
        if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=MOMENTUM)
    losses = []
    for _ in range(args.steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_convoy(args, scratch, images, precision):
    run = os.path.join(scratch, precision)
    empty = os.path.join(scratch, "empty.yaml")
    open(empty, "w").close()
    keys = {"model.name": args.model, "model.init": os.path.join(scratch, "weights.safetensors"),
            "model.dropout": 0, "model.stochastic_depth": 0,
            "data.train": os.path.join(scratch, "images"), "data.augment": "none",
            "data.image_size": SIZE, "data.eval_resize": SIZE,
            "data.mean": ",".join(map(str, MEAN)),
            "data.std": ",".join(map(str, STD)), "train.batch_per_rank": images,
            "train.max_steps": args.steps, "train.epochs": args.steps, "train.eval_every": 0,
            "train.precision": precision, "optimizer.name": "sgd", "optimizer.lr": args.lr,
            "optimizer.lr_scaling": "none", "optimizer.momentum": MOMENTUM,
            "optimizer.weight_decay": 0, "schedule.name": "constant", "schedule.warmup_epochs": 0,
            "checkpoint.every_steps": 0, "log.every": 1, "device.backend": "cpu",
            "device.emulate": "true", "run.dir": run}
    done = subprocess.run([args.convoy, "train", empty, *(f"{k}={v}" for k, v in keys.items())],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    with open(os.path.join(run, "metrics.jsonl")) as f:
        records = [json.loads(line) for line in f]
    return [r["loss"] for r in records if r["event"] == "step"]


def strays(fp32, bf16):
    apart = [abs(b - a) / a for a, b in zip(fp32, bf16, strict=True)]
    return sum(apart) / len(apart), max(apart)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--model", default="resnet18", help="one of torchvision's or timm's")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--only-fp32", action="store_true",
                        help="losses in fp32 alone, beside PyTorch's own spread")
    args = parser.parse_args()
    torch.manual_seed(1)
    weights = make_network(args.model).state_dict()
    precisions = ("fp32",) if args.only_fp32 else ("fp32", "bf16")
    with tempfile.TemporaryDirectory() as scratch:
        x, y = make_images(args.folder, args.images, os.path.join(scratch, "images"))
        save_file(weights, os.path.join(scratch, "weights.safetensors"))
        ours = [train_convoy(args, scratch, len(y), precision)
                for precision in precisions]
    theirs = [train_torch(args, weights, x, y, precision == "bf16")
              for precision in precisions]
    if abs(ours[0][0] - theirs[0][0]) > 1e-4 * theirs[0][0]:
        sys.exit(f"not the same start: {ours[0][0]} and {theirs[0][0]} in fp32")
    apart = strays(theirs[0], ours[0])
    print(f"convoy's fp32 from PyTorch's: mean {apart[0]:.1e}, largest {apart[1]:.1e}")
    if args.only_fp32:
        orders = [torch.randperm(len(y)) for _ in range(ORDERS)]
        others = [strays(theirs[0], train_torch(args, weights, x[o], y[o], False)) for o in orders]
        own = [max(column) for column in zip(*others, strict=True)]
        print(f"PyTorch's in {ORDERS} other orders: mean {own[0]:.1e}, largest {own[1]:.1e}")
        print("step  convoy   PyTorch", *(f"\n{i:4d}  {row[0]:.5f}  {row[1]:.5f}" for i, row in
                                          enumerate(zip(ours[0], theirs[0], strict=True))))
        follows = all(a <= max(1e-4, 2 * b) for a, b in zip(apart, own, strict=True))
        print("follows PyTorch" if follows else "does not follow PyTorch")
        sys.exit(not follows)
    print(f"{'step':>4}  {'convoy fp32':>12} {'bf16':>9}  {'PyTorch fp32':>12} {'bf16':>9}")
    for i, row in enumerate(zip(*ours, *theirs, strict=True)):
        print(f"{i:4d}  {row[0]:12.5f} {row[1]:9.5f}  {row[2]:12.5f} {row[3]:9.5f}")
    (mean, largest), (torch_mean, torch_largest) = strays(*ours), strays(*theirs)
    print(f"bf16 from fp32: convoy mean {mean:.4f}, largest {largest:.4f}; "
          f"PyTorch mean {torch_mean:.4f}, largest {torch_largest:.4f}")
    near = mean <= SLACK * torch_mean and largest <= SLACK * torch_largest
    print("within PyTorch's band" if near else "outside PyTorch's band")
    sys.exit(not near)


if __name__ == "__main__":
    main()
