#!/usr/bin/env python3
"""Fine-tuning by configs/finetune.yaml beside the same in PyTorch, from weights that PyTorch saved.

    python3 scripts/compare_finetune.py FOLDER [--convoy ./convoy] [--seeds 3] [--threads 2]
        [--weights FILE.pth]

FOLDER has train/ and val/ with a folder for each class. PyTorch trains torchvision's ResNet-18 on
the first half of the classes, from nothing, and saves a .pth; convoy and PyTorch fine-tune it on
the other half, and convoy trains on that from nothing too. Prints minutes and top-1 of the last
weights over all validation images. The .pth goes to --weights; where that file is there already, it
is taken. Needs torch and torchvision (pip); no part of build or tests."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torchvision
from torch import nn
from torchvision.transforms import v2

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE, BATCH, SOURCE_EPOCHS, EPOCHS = 64, 32, 40, 10
SOURCE = {"lr": 0.05, "decay": 5e-4, "head": 1, "epochs": SOURCE_EPOCHS}
TUNE = {"lr": 0.005, "decay": 1e-4, "head": 10, "epochs": EPOCHS}


def link_half(folder, out, half):
    for part in ("train", "val"):
        names = sorted(os.listdir(os.path.join(folder, part)))
        middle = len(names) // 2
        os.makedirs(os.path.join(out, part))
        for name in names[:middle] if half == 0 else names[middle:]:
            os.symlink(os.path.join(os.path.abspath(folder), part, name),
                       os.path.join(out, part, name))


def loader(folder, part):
    train = part == "train"
    moved = [v2.RandomResizedCrop(SIZE, scale=(0.35, 1)), v2.RandomHorizontalFlip()]
    steps = (moved if train else [v2.Resize(SIZE), v2.CenterCrop(SIZE)]) + [
        v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    images = torchvision.datasets.ImageFolder(os.path.join(folder, part), v2.Compose(steps))
    return torch.utils.data.DataLoader(images, BATCH, shuffle=train, drop_last=train)


def groups(net, recipe):
    """convoy's: decay for matrices and filters alone; the last layer at its own rate."""
    out = []
    for name, p in net.named_parameters():
        factor = recipe["head"] if name.startswith("fc.") else 1
        out.append({"params": [p], "weight_decay": recipe["decay"] if p.dim() > 1 else 0,
                    "lr": recipe["lr"] * factor})
    return out


def train_torch(net, folder, recipe):
    net = net.to(memory_format=torch.channels_last)
    train, val = loader(folder, "train"), loader(folder, "val")
    warm, total = len(train), recipe["epochs"] * len(train)

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return (1 + math.cos(math.pi * (step - warm) / (total - warm))) / 2

    optimizer = torch.optim.SGD(groups(net, recipe), recipe["lr"], 0.9, nesterov=True)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    for _ in range(recipe["epochs"]):
        net.train()
        for x, y in train:
            optimizer.zero_grad(set_to_none=True)
            loss_of(net(x), y).backward()
            optimizer.step()
            rate.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in val)
    return 100 * right / len(val.dataset)


def tune_torch(weights, folder, classes, seed):
    torch.manual_seed(seed)
    net = torchvision.models.resnet18(num_classes=classes[0])
    net.load_state_dict(weights)
    net.fc = nn.Linear(net.fc.in_features, classes[1])
    return train_torch(net, folder, TUNE)


def train_convoy(options, folder, init, seed):
    keys = {"model.name": "resnet18", "model.init": init, "data.dir": folder,
            "data.image_size": SIZE, "data.eval_resize": SIZE, "train.seed": seed,
            "train.epochs": EPOCHS, "train.eval_every": 0, "train.precision": "fp32",
            "device.backend": "cpu",
            "device.threads": options.threads}
    if not init:
        keys |= {"optimizer.lr": SOURCE["lr"], "optimizer.weight_decay": SOURCE["decay"],
                 "optimizer.head_lr": 1}
    with tempfile.TemporaryDirectory() as run:
        keys["run.dir"] = run
        config = os.path.join(HERE, "../../configs/finetune.yaml")
        subprocess.run([options.convoy, "train", config, *(f"{k}={v}" for k, v in keys.items())],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    return 100 * [r["top1"] for r in records if r["event"] == "eval"][-1]


def timed(results, name, seed, run):
    start = time.time()
    top1 = run()
    minutes = (time.time() - start) / 60
    results.setdefault(name, []).append((minutes, top1))
    print("%s, seed %d: %.2f %% in %.1f minutes" % (name, seed, top1, minutes), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", metavar="FILE.pth")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        halves = [os.path.join(scratch, name) for name in ("source", "target")]
        for half, out in enumerate(halves):
            link_half(options.folder, out, half)
            if len(loader(out, "train")) == 0:
                sys.exit("%s/train: half of its classes have fewer than %d images, which is no "
                         "batch" % (options.folder, BATCH))
        classes = [len(os.listdir(os.path.join(half, "train"))) for half in halves]
        saved = options.weights or os.path.join(scratch, "weights.pth")
        if not os.path.exists(saved):
            torch.manual_seed(0)
            net = torchvision.models.resnet18(num_classes=classes[0])
            timed(results, "PyTorch, first half, from nothing", 0,
                  lambda: train_torch(net, halves[0], SOURCE))
            torch.save(net.state_dict(), saved)
        weights = torch.load(saved, weights_only=True)
        for seed in range(1, options.seeds + 1):
            timed(results, "convoy, fine-tuned", seed,
                  lambda: train_convoy(options, halves[1], saved, seed))
            timed(results, "PyTorch, fine-tuned", seed,
                  lambda: tune_torch(weights, halves[1], classes, seed))
            timed(results, "convoy, from nothing", seed,
                  lambda: train_convoy(options, halves[1], "", seed))
    for name, rows in results.items():
        print("%-34s mean top-1 %.2f %%, median %.2f minutes" % (
            name, statistics.mean(r[1] for r in rows), statistics.median(r[0] for r in rows)))


main()
