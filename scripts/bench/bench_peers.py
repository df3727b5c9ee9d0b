#!/usr/bin/env python3
"""Speed against PyTorch on the same machine, in turn: images/s of training ResNet-50 (224 px, batch
32), ResNet-20 (32 px, batch 128), EfficientNet-B0 (224 px, batch 16) and of one member of other
families each, and of ResNet-50 inference (224 px, batch 32), all cores.

Needs an environment with torch and torchvision (pip), for DeiT also timm; no part of build or
tests. Each alternation times convoy in every precision asked for and then every PyTorch variant
(NCHW, channels_last, compiled, each in float32 and in bf16 autocast); medians are compared and
PyTorch's best variant of any precision counts. --convoy may be given again, for other builds:
NAME=PATH, or NAME=PATH@fp32 for one that is timed in one precision alone; keys may follow, as in
"direct=./convoy device.winograd=false".

    python3 scripts/bench/bench_peers.py [--alternations 5] [--steps 10] [--only resnet20]
        [--json FILE] [--precisions fp32,bf16] [--torch-precisions fp32,bf16]
        [--torch-variants channels_last] [--convoy [NAME=]PATH[@PRECISION] ...]
"""
import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import torch
import torchvision
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../golden"))
from make_golden import CifarResNet  # noqa: E402


def deit_small():
    import timm  # not for the others

    return timm.create_model("deit_small_patch16_224")


WORKLOADS = {
    "resnet50": dict(size=224, batch=32, classes=1000, make=lambda: torchvision.models.resnet50()),
    "resnet18": dict(size=224, batch=32, classes=1000, make=lambda: torchvision.models.resnet18()),
    "wide_resnet50_2": dict(size=224, batch=16, classes=1000,
                            make=lambda: torchvision.models.wide_resnet50_2()),
    "vit_b_16": dict(size=224, batch=8, classes=1000, make=lambda: torchvision.models.vit_b_16()),
    "resnet20": dict(size=32, batch=128, classes=10, make=lambda: CifarResNet(20, 10)),
    "efficientnet_b0": dict(size=224, batch=16, classes=1000,
                            make=lambda: torchvision.models.efficientnet_b0()),
    "convnext_tiny": dict(size=224, batch=8, classes=1000,
                          make=lambda: torchvision.models.convnext_tiny()),
    "deit_small_patch16_224": dict(size=224, batch=8, classes=1000, make=lambda: deit_small()),
    "efficientnet_v2_s": dict(size=224, batch=8, classes=1000,
                              make=lambda: torchvision.models.efficientnet_v2_s()),
    "mobilenet_v3_large": dict(size=224, batch=32, classes=1000,
                               make=lambda: torchvision.models.mobilenet_v3_large()),
    "regnet_y_1_6gf": dict(size=224, batch=16, classes=1000,
                           make=lambda: torchvision.models.regnet_y_1_6gf()),
    "resnet50_inference": dict(size=224, batch=32, classes=1000,
                               make=lambda: torchvision.models.resnet50(), model="resnet50",
                               inference=True),
}


def convoy_rate(binary, precision, name, w, steps):
    path, *keys = binary.split()
    command = [path, "bench", "step", *keys, "--steps", str(steps),
               "--set", f"model.name={w.get('model', name)}",
               "--set", f"model.classes={w['classes']}",
               "--set", f"data.image_size={w['size']}", "--set", f"data.eval_resize={w['size']}",
               "--set", f"train.batch_per_rank={w['batch']}",
               "--set", f"train.precision={precision}"]
    command += ["--eval"] if w.get("inference") else []
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    values = dict(line.split()[:2] for line in out.splitlines() if len(line.split()) == 2)
    return float(values["images_per_s"])


class Torch:
    """One PyTorch variant of a workload, ready to be timed again and again."""

    def __init__(self, w, memory_format, compiled, precision):
        torch.manual_seed(0)
        self.batch, self.inference = w["batch"], w.get("inference", False)
        self.model = w["make"]().train(not self.inference).to(memory_format=memory_format)
        self.x = torch.randn(w["batch"], 3, w["size"], w["size"]).contiguous(
            memory_format=memory_format)
        self.y = torch.randint(0, w["classes"], (w["batch"],))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9,
                                         weight_decay=1e-4)
        self.run = torch.compile(self.model) if compiled else self.model
        self.autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16,
                                          enabled=precision == "bf16")
        for _ in range(3):
            self.step()

    def step(self):
        if self.inference:
            with torch.inference_mode(), self.autocast():
                self.run(self.x)
            return
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = nn.functional.cross_entropy(self.run(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    def rate(self, steps):
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return self.batch / statistics.median(times)


VARIANTS = {
    "NCHW": (torch.contiguous_format, False),
    "channels_last": (torch.channels_last, False),
    "NCHW compiled": (torch.contiguous_format, True),
    "channels_last compiled": (torch.channels_last, True),
}
PINNED = ("@fp32", "@bf16")  # how a build that is timed in one precision ends


def compare(ours, precisions, variants, name, alternations, steps):
    w = WORKLOADS[name]
    peers = {f"pytorch {variant} {precision}": Torch(w, *VARIANTS[variant], precision)
             for precision in precisions for variant in variants}
    rates = {key: [] for key in [*ours, *peers]}
    for _ in range(alternations):
        for key, (binary, precision) in ours.items():
            rates[key].append(convoy_rate(binary, precision, name, w, steps))
        for variant, peer in peers.items():
            rates[variant].append(peer.rate(steps))
        print(f"  {name}: " + ", ".join(f"{key} {values[-1]:.2f}" for key, values in rates.items()),
              flush=True)
    medians = {key: statistics.median(values) for key, values in rates.items()}
    best = max(peers or ours, key=medians.get)
    print(f"\n{name}, {w['size']} px, batch {w['batch']}, {torch.get_num_threads()} threads, "
          f"medians of {alternations} alternations of {steps} steps")
    for key, median in medians.items():
        print(f"  {key:36s} {median:9.2f} images/s   "
              f"{median / medians[best]:.3f} of {best}   "
              f"[{min(rates[key]):.2f} .. {max(rates[key]):.2f}]")
    return {"workload": name, "rates": rates, "medians": medians, "best_peer": best,
            "ratios": {key: medians[key] / medians[best] for key in ours}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--convoy", action="append", metavar="[NAME=]PATH[@PRECISION]")
    parser.add_argument("--precisions", default="auto", help="of convoy (default: auto)")
    parser.add_argument("--torch-precisions", default="fp32,bf16", help="of PyTorch; '' for none")
    parser.add_argument("--torch-variants", default=",".join(VARIANTS), help="default: all four")
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", choices=sorted(WORKLOADS))
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, "
          f"Python {platform.python_version()}, {platform.machine()}")
    builds = [b if "=" in b.split(" ")[0] else f"convoy={b}" for b in args.convoy or ["./convoy"]]
    ours = {}
    for name, build in (b.split("=", 1) for b in builds):
        path, *keys = build.split(" ")
        path, _, only = path.rpartition("@") if path.endswith(PINNED) else (path, "", "")
        ours.update({f"{name} {p}": (" ".join([path, *keys]), p)
                     for p in (only or args.precisions).split(",")})
    peers = [p for p in args.torch_precisions.split(",") if p]
    variants = args.torch_variants.split(",")
    if unknown := set(variants) - set(VARIANTS):
        parser.error(f"--torch-variants: {', '.join(unknown)}: none of {', '.join(VARIANTS)}")
    results = [compare(ours, peers, variants, name, args.alternations, args.steps)
               for name in ([args.only] if args.only else WORKLOADS)]
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
