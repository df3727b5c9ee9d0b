#!/usr/bin/env python3
"""Does configs/airbench94.yaml reach what Keller Jordan's own program reaches on the same files?
The program, legacy/airbench94.py of github.com/KellerJordan/cifar10-airbench, is read as it is and
run on the CPU in fp32 or under autocast; both run with all cores, by turns. Prints top-1 with the
test views and seconds: the program's are its own (whitening, training, test), convoy's are those of
the whole process, JPEG files included. Ends with 1 where convoy's mean is more than 0.3 points
below.

Needs torch, torchvision, numpy and Pillow (pip); no part of build or tests.

    python3 scripts/bench/compare_airbench.py PROGRAM FOLDER [--convoy ./convoy] [--seeds 3]
        [--epochs 9.9] [--precision fp32|bf16]

FOLDER holds train and test, each with a folder of JPEG files for each class.
"""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT, STEPS_AN_EPOCH, WARMUP = 0.3, 48, 0.23


class Clock:
    """torch.cuda.Event where there is no GPU."""

    def __init__(self, enable_timing):
        self.at = None if enable_timing else 0

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


def save_images(folder, to):
    """As the program keeps them, in an order of chance as CIFAR's own files are."""
    import numpy
    import torch
    from PIL import Image

    classes = sorted(os.listdir(os.path.join(folder, "train")))
    for split in ("train", "test"):
        paths = [(os.path.join(folder, split, name, file), label)
                 for label, name in enumerate(classes)
                 for file in sorted(os.listdir(os.path.join(folder, split, name)))]
        pixels = numpy.stack([numpy.asarray(Image.open(path).convert("RGB")) for path, _ in paths])
        order = torch.randperm(len(paths), generator=torch.Generator().manual_seed(0))
        labels = torch.tensor([label for _, label in paths])
        torch.save({"images": torch.from_numpy(pixels)[order], "labels": labels[order],
                    "classes": classes}, os.path.join(to, split + ".pt"))


def train_torch(options):
    import torch

    torch.manual_seed(options.torch_seed)
    torch.cuda.Event = Clock
    torch.cuda.synchronize = lambda: None
    torch.Tensor.half = torch.nn.Module.half = lambda self: self.float()
    torch.nn.Module.cuda = lambda self: self
    spec = importlib.util.spec_from_file_location("airbench", options.program)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    program.hyp["opt"]["train_epochs"] = options.epochs
    whole, make_net, told = program.CifarLoader.__init__, program.make_net, {}
    program.CifarLoader.__init__ = lambda self, *a, **k: whole(self, *a, gpu="cpu", **k)
    program.print_training_details = lambda variables, is_final_entry: told.update(variables)

    def make_net_of_precision():
        net = make_net()
        if options.precision == "bf16":
            net.forward = torch.autocast("cpu", torch.bfloat16)(net.forward)
        return net

    program.make_net = make_net_of_precision
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "cifar10"))
        save_images(options.folder, os.path.join(folder, "cifar10"))
        os.chdir(folder)
        top1 = program.main(options.torch_seed)
    print(json.dumps([top1, told["total_time_seconds"]]))


def run_torch(options, seed):
    done = subprocess.run([sys.executable, __file__, options.program, options.folder,
                           "--torch-seed", str(seed), "--epochs", str(options.epochs),
                           "--precision", options.precision], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def run_convoy(options, seed):
    config = os.path.join(os.path.dirname(__file__), "../../configs/airbench94.yaml")
    steps = math.ceil(STEPS_AN_EPOCH * options.epochs)
    keys = {"data.train": os.path.join(options.folder, "train"),
            "data.val": os.path.join(options.folder, "test"), "train.seed": seed,
            "train.epochs": options.epochs, "train.max_steps": steps,
            "schedule.warmup_steps": int(steps * WARMUP), "train.precision": options.precision,
            "device.backend": "cpu"}
    with tempfile.TemporaryDirectory() as folder:
        keys["run.dir"] = os.path.join(folder, "run")
        start = time.perf_counter()
        subprocess.run([options.convoy, "train", config] + [f"{k}={v}" for k, v in keys.items()],
                       check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        with open(os.path.join(keys["run.dir"], "metrics.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    return [r["top1"] for r in records if r["event"] == "eval"][-1], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=9.9)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--torch-seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.torch_seed is not None:
        train_torch(options)
        return
    results = {"PyTorch": [], "convoy": []}
    for seed in range(1, options.seeds + 1):
        for name, run in ("PyTorch", run_torch), ("convoy", run_convoy):
            top1, seconds = run(options, seed)
            results[name].append((100 * top1, seconds))
            print("%s, seed %d: %.2f %%, %.0f s" % (name, seed, 100 * top1, seconds), flush=True)
    top1, seconds = ({name: statistics.mean(pair[i] for pair in pairs)
                      for name, pairs in results.items()} for i in (0, 1))
    difference = top1["convoy"] - top1["PyTorch"]
    print("means: %.2f and %.2f %%, difference %.2f points; PyTorch's time %.2f of convoy's"
          % (top1["convoy"], top1["PyTorch"], difference, seconds["PyTorch"] / seconds["convoy"]))
    sys.exit(difference < -LIMIT)


if __name__ == "__main__":
    main()
