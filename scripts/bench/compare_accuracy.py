#!/usr/bin/env python3
"""Does a recipe reach the same accuracy here and in PyTorch? ResNet-18 on Fashion-MNIST (28 px, one
channel), padded random crops and flips, SGD with Nesterov's momentum, weight decay on every
parameter, a cosine by the step: convoy, and PyTorch with torchvision's network and transforms, each
from seeds of its own. A run of either has one thread; two runs go side by side. Prints top-1 of the
last weights over all test images, means and 95 % half-widths, and ends with 1 unless the means
are within 0.3 points.

Needs torch, torchvision and numpy (pip); no part of build or tests.

    python3 scripts/bench/compare_accuracy.py FOLDER [--convoy ./convoy] [--seeds 5] [--epochs 4]

FOLDER holds the four IDX files, .gz.
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy
import torch
import torchvision
from PIL import Image
from torch import nn
from torchvision.transforms import v2

BATCH, LR, MOMENTUM, DECAY, LIMIT = 250, 0.02, 0.9, 5e-4, 0.3
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}


def read_idx(folder, name):
    with gzip.open(os.path.join(folder, name + ".gz")) as file:
        data = file.read()
    sizes = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


class Images(torch.utils.data.Dataset):
    def __init__(self, folder, prefix, transform):
        self.pixels = read_idx(folder, prefix + "-images-idx3-ubyte")
        self.labels = read_idx(folder, prefix + "-labels-idx1-ubyte").astype(numpy.int64)
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pixels[i])), self.labels[i]


def train_torch(folder, seed, epochs):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    to_input = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])]
    moved = [v2.RandomCrop(28, padding=3), v2.RandomHorizontalFlip()]
    train = torch.utils.data.DataLoader(Images(folder, "train", v2.Compose(moved + to_input)),
                                        BATCH, shuffle=True, drop_last=True)
    test = torch.utils.data.DataLoader(Images(folder, "t10k", v2.Compose(to_input)), 500)
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
    nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
    net = net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), LR, MOMENTUM, weight_decay=DECAY, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(train))
    for _ in range(epochs):
        net.train()
        for x, y in train:
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in test)
    print(right / len(test.dataset))


def run_convoy(options, seed):
    config = os.path.join(os.path.dirname(__file__), "../../configs/resnet18-fashion-mnist.yaml")
    keys = {"data.train": options.folder, "data.val": options.folder, "data.augment": "cifar",
            "train.seed": seed, "train.epochs": options.epochs, "train.batch_per_rank": BATCH,
            "train.eval_every": 0, "train.precision": "fp32", "optimizer.name": "sgd",
            "optimizer.nesterov": "true", "optimizer.lr": LR, "optimizer.momentum": MOMENTUM,
            "optimizer.weight_decay": DECAY, "optimizer.decay_skip": "none",
            "schedule.name": "cosine", "device.backend": "cpu", "device.threads": 1}
    with tempfile.TemporaryDirectory() as folder:
        keys["run.dir"] = folder
        subprocess.run([options.convoy, "train", config] + [f"{k}={v}" for k, v in keys.items()],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    return [r["top1"] for r in records if r["event"] == "eval"][-1]


def run_torch(options, seed):
    done = subprocess.run([sys.executable, __file__, options.folder, "--torch-seed", str(seed),
                           "--epochs", str(options.epochs)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(T_95))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--torch-seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_seed is not None:
        train_torch(options.folder, options.torch_seed, options.epochs)
        return
    runs = {"PyTorch": run_torch, "convoy": run_convoy}
    seeds = range(1, options.seeds + 1)

    def one(job):
        top1 = 100 * runs[job[0]](options, job[1])
        print("%s, seed %d: %.2f" % (*job, top1), flush=True)
        return top1

    means = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(name, seed) for seed in seeds for name in runs]
        results = dict(zip(jobs, pool.map(one, jobs)))
    for name in runs:
        column = [results[name, seed] for seed in seeds]
        means[name] = statistics.mean(column)
        half = T_95[len(column)] * statistics.stdev(column) / len(column) ** 0.5
        print("%s: %.2f +- %.2f" % (name, means[name], half))
    difference = means["convoy"] - means["PyTorch"]
    print("difference %.2f points" % difference)
    sys.exit(abs(difference) > LIMIT)


main()
