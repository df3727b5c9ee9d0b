#!/usr/bin/env python3
"""Do networks of other families learn here what they learn in PyTorch? The smallest members of
four, from nothing, on a part of CIFAR-10's JPEGs: padded random crops and flips, AdamW, one epoch
of warmup, a cosine by the step, dropout and stochastic depth as published: convoy, and PyTorch with
torchvision's (timm's) networks and torchvision's transforms, each from seeds of its own, one thread
a run, two runs side by side. Prints top-1 of the last weights over all test images.

    python3 scripts/bench/compare_families.py FOLDER [--convoy ./convoy] [--seeds 2] [--epochs 3]
        [--images 10000] [--only convnext_tiny]

FOLDER has train/ and test/ with a folder of JPEGs for each class. Needs torch, torchvision and timm
(pip); no part of build or tests."""
import argparse
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import timm
import torch
import torchvision
from PIL import Image
from torch import nn
from torchvision.transforms import v2

BATCH, LR, DECAY = 32, 5e-4, 0.05
MEAN, STD = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]  # of the config
SIZES = {"mobilenet_v3_small": 32, "efficientnet_v2_s": 32, "convnext_tiny": 32,
         "deit_tiny_patch16_224": 64}  # 32 px would be four patches


def make_images(folder, out, images, size):
    """The first images of each class, and all of the test set, enlarged where the network needs it:
    both sides read the same files."""
    for part, count in (("train", images), ("test", None)):
        classes = sorted(os.listdir(os.path.join(folder, part)))
        for name in classes:
            source = os.path.join(os.path.abspath(folder), part, name)
            target = os.path.join(out, part, name)
            os.makedirs(target)
            for file in sorted(os.listdir(source))[:count and count // len(classes)]:
                image = Image.open(os.path.join(source, file))
                if image.size == (size, size):
                    os.symlink(os.path.join(source, file), os.path.join(target, file))
                else:
                    image.resize((size, size), Image.BICUBIC).save(
                        os.path.join(target, os.path.splitext(file)[0] + ".jpg"), quality=95)


def loader(folder, part, size):
    train = part == "train"
    moved = [v2.RandomCrop(size, padding=size // 8), v2.RandomHorizontalFlip()] if train else []
    steps = moved + [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True),
                     v2.Normalize(MEAN, STD)]
    images = torchvision.datasets.ImageFolder(os.path.join(folder, part), v2.Compose(steps))
    return torch.utils.data.DataLoader(images, BATCH, shuffle=train, drop_last=train)


def make_network(name, size):
    if name.startswith("deit"):
        return timm.create_model(name, num_classes=10, img_size=size)
    return getattr(torchvision.models, name)(num_classes=10)


def train_torch(folder, name, seed, epochs):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    size = SIZES[name]
    net = make_network(name, size).to(memory_format=torch.channels_last)
    train, test = loader(folder, "train", size), loader(folder, "test", size)
    warm, total = len(train), epochs * len(train)
    optimizer = torch.optim.AdamW(net.parameters(), LR, weight_decay=DECAY)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (step + 1) / warm if step < warm else
        (1 + math.cos(math.pi * (step - warm) / (total - warm))) / 2)
    for _ in range(epochs):
        net.train()
        for x, y in train:
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            rate.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in test)
    print(right / len(test.dataset))


def run_torch(options, folder, name, seed):
    done = subprocess.run([sys.executable, __file__, folder, "--torch-seed", str(seed), "--only",
                           name, "--epochs", str(options.epochs)], check=True,
                          stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def run_convoy(options, folder, name, seed):
    keys = {"model.name": name, "data.train": f"{folder}/train", "data.val": f"{folder}/test",
            "data.image_size": SIZES[name], "data.eval_resize": SIZES[name],
            "data.augment": "cifar", "data.threads": 1,
            "train.seed": seed, "train.epochs": options.epochs, "train.batch_per_rank": BATCH,
            "train.eval_every": 0, "train.label_smoothing": 0, "train.precision": "fp32",
            "optimizer.name": "adamw", "optimizer.nesterov": "false",
            "optimizer.lr": LR, "optimizer.lr_scaling": "none", "optimizer.weight_decay": DECAY,
            "optimizer.decay_skip": "none", "schedule.name": "cosine", "schedule.warmup_epochs": 1,
            "device.backend": "cpu", "device.threads": 1}
    config = os.path.join(os.path.dirname(__file__), "../../configs/resnet20-cifar10.yaml")
    with tempfile.TemporaryDirectory() as run:
        keys["run.dir"] = run
        subprocess.run([options.convoy, "train", config] + [f"{k}={v}" for k, v in keys.items()],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    return [r["top1"] for r in records if r["event"] == "eval"][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--only", choices=sorted(SIZES))
    parser.add_argument("--torch-seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_seed is not None:
        train_torch(options.folder, options.only, options.torch_seed, options.epochs)
        return
    runs = {"PyTorch": run_torch, "convoy": run_convoy}
    with tempfile.TemporaryDirectory() as scratch:
        for size in set(SIZES.values()):
            make_images(options.folder, os.path.join(scratch, str(size)), options.images, size)

        def one(job):
            name, side, seed = job
            start = time.time()
            top1 = 100 * runs[side](options, os.path.join(scratch, str(SIZES[name])), name, seed)
            print("%s, %s, seed %d: %.2f in %.0f s" % (*job, top1, time.time() - start), flush=True)
            return top1

        jobs = [(name, side, seed) for name in ([options.only] if options.only else SIZES)
                for seed in range(1, options.seeds + 1) for side in runs]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = dict(zip(jobs, pool.map(one, jobs)))
    for name in dict.fromkeys(job[0] for job in jobs):
        for side in runs:
            column = [results[job] for job in jobs if job[:2] == (name, side)]
            print("%s, %s: mean %.2f, %.2f to %.2f" % (
                name, side, statistics.mean(column), min(column), max(column)))


main()
