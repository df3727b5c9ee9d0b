#!/usr/bin/env python3
"""Training speed of ResNet-50 on one GPU against PyTorch, in the same run: images/s at 224 px,
synthetic input on the device, SGD with momentum.

Needs torch and torchvision; no part of build or tests. Convoy and PyTorch's variants are timed in
turn, medians over the alternations are compared, and PyTorch's best variant counts. PyTorch runs
channels_last under autocast: eager, captured as a whole step in a CUDA graph, torch.compile, and
torch.compile max-autotune (which makes CUDA graphs itself); SGD is the fused one, fp16 steps use
the gradient scaler. A variant that is not ready after --limit seconds is named and left out.

    python3 scripts/bench/bench_gpu_peers.py [--precision bf16 fp16] [--batch 256]
        [--alternations 5] [--steps 20 | --seconds 10] [--limit 120] [--json FILE]
"""
import argparse
import gc
import json
import signal
import statistics
import sys
import time

import torch
import torchvision
from torch import nn

from bench_gpu_nodes import add_arguments, convoy_rate

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def too_long(*_):
    raise TimeoutError("not ready in time")


class Torch:
    """One PyTorch variant, ready to be timed again and again. mode: eager, graph, compile,
    autotune."""

    def __init__(self, args, precision, mode):
        torch.manual_seed(0)
        self.batch, self.dtype, self.device = args.batch, DTYPES[precision], args.device
        self.model = getattr(torchvision.models, args.model)().train().to(
            self.device, memory_format=torch.channels_last)
        self.x = torch.randn(args.batch, 3, args.size, args.size, device=self.device).contiguous(
            memory_format=torch.channels_last)
        self.y = torch.randint(0, 1000, (args.batch,), device=self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9,
                                         weight_decay=5e-5, fused=True)
        self.scaler = torch.amp.GradScaler(self.device, enabled=precision == "fp16")
        compiled = {"compile": "default", "autotune": "max-autotune"}.get(mode)
        self.forward = torch.compile(self.model, mode=compiled) if compiled else self.model
        self.replay = None
        for _ in range(5):
            self.step()
        if mode == "graph":
            self.capture()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, dtype=self.dtype):
            loss = nn.functional.cross_entropy(self.forward(self.x), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def capture(self):
        """Forward, backward and update in one graph; the gradient scaler decides on the host, so
        fp16 leaves its update outside."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.replay = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.replay):
            with torch.autocast(self.device, dtype=self.dtype):
                loss = nn.functional.cross_entropy(self.forward(self.x), self.y)
            self.scaler.scale(loss).backward()
            if not self.scaler.is_enabled():
                self.optimizer.step()

    def run(self):
        if not self.replay:
            return self.step()
        self.replay.replay()
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def rate(self, steps, seconds):
        """Images/s of so many steps, or of at least so many seconds, and when they ran."""
        def wait():
            if self.device == "cuda":
                torch.cuda.synchronize()

        for _ in range(3):  # its memory was given back while convoy ran
            self.run()
        wait()
        began, start, done, spent = time.time(), time.perf_counter(), 0, 0
        while done == 0 or spent < seconds:
            for _ in range(steps):
                self.run()
            wait()
            done, spent = done + steps, time.perf_counter() - start
        return self.batch * done / spent, [began, time.time()]


def alternate(args, precision, modes, rates, windows, save):
    """Convoy and these variants in turn. They are built before the first is timed and gone
    afterwards. save(): what is known so far. Returns whether convoy ran each time."""
    peers = {}
    for mode in modes:
        try:
            signal.alarm(args.limit)
            peers[f"pytorch {mode}"] = Torch(args, precision, mode)
            signal.alarm(0)
        except Exception as error:  # a variant that does not run here is named and left out
            signal.alarm(0)
            print(f"  pytorch {mode}: left out: "
                  f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
                  flush=True)
    complete = True
    for _ in range(args.alternations):
        timed = {key: peer.rate(args.steps, args.seconds) for key, peer in peers.items()}
        if args.device == "cuda":
            torch.cuda.empty_cache()  # what PyTorch keeps for later steps is not there for convoy
        if not args.no_convoy:
            try:
                timed["convoy"] = convoy_rate(args, precision)
            except SystemExit as error:  # the others' rates are still worth having
                print(f"  convoy: {error}", flush=True)
                complete = False
        for key, (rate, window) in timed.items():
            rates.setdefault(key, []).append(rate)
            windows.append([key, rate, *window])
        print(f"  {precision}: "
              + ", ".join(f"{key} {rate:.0f}" for key, (rate, _) in timed.items()), flush=True)
        save()
    peers.clear()
    gc.collect()
    if args.device == "cuda":
        torch.cuda.empty_cache()
    return complete


def report(args, precision, rates, windows):
    medians = {key: statistics.median(values) for key, values in rates.items()}
    variants = [key for key in medians if key != "convoy"]
    best = max(variants, key=medians.get) if variants else "convoy"
    print(f"\n{args.model}, {args.size} px, batch {args.batch}, {precision}, medians of "
          f"alternations of {args.seconds or args.steps} {'seconds' if args.seconds else 'steps'}")
    for key, median in medians.items():
        values = rates[key]
        print(f"  {key:20s} {median:9.1f} images/s   "
              f"{median / medians[best]:.3f} of the best PyTorch   "
              f"[{min(values):.1f} .. {max(values):.1f}, {len(values)} times]", flush=True)
    return {"model": args.model, "size": args.size, "batch": args.batch, "precision": precision,
            "torch": torch.__version__, "rates": rates, "windows": windows, "medians": medians,
            "best_peer": best}


def compare(args, precision, save):
    """All variants in turn; max-autotune, which may take minutes, by itself behind them. What is
    known is saved after each. Returns whether convoy ran each time."""
    modes = args.modes or (["eager", "graph", "compile", "autotune"]
                           if args.device == "cuda" else ["eager"])
    rates, windows, complete = {}, [], True
    groups = ([[mode for mode in modes if mode != "autotune"]]
              + [[mode] for mode in modes if mode == "autotune"])
    for group in filter(None, groups):
        complete = alternate(args, precision, group, rates, windows,
                             lambda: save(report(args, precision, rates, windows))) and complete
    return complete


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    add_arguments(parser)
    parser.add_argument("--no-convoy", action="store_true", help="time PyTorch alone")
    parser.add_argument("--precision", nargs="+", choices=sorted(DTYPES), default=["bf16", "fp16"])
    parser.add_argument("--modes", nargs="+", choices=["eager", "graph", "compile", "autotune"])
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--limit", type=int, default=120, help="seconds for a variant to be ready")
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, {name}", flush=True)
    results = {}

    def save(result):
        results[result["precision"]] = result
        if args.json:
            with open(args.json, "w") as out:
                json.dump(list(results.values()), out, indent=1)

    complete = [compare(args, precision, save) for precision in args.precision]
    if not all(complete):
        sys.exit("convoy did not run each time")


if __name__ == "__main__":
    main()
