#!/usr/bin/env python3
"""Which rule trains ResNet-20 on CIFAR-10 best at batch 4096, in as few steps as that leaves?
SGD with the learning rate scaled linearly, LARS and LAMB, each with the same four rates: those of
SGD are 0.1 for 256, 128, 64 and 32 images; LARS, whose trust coefficient is 0.001, takes the same.
Its steps are at most lr * 0.001 / (1 - momentum) of a weight's norm and LAMB's lr: LAMB takes a
hundredth, so that weights that decay move about alike. All else is configs/resnet20-cifar10.yaml
with 3 epochs of warm-up, batch norm over 128 images, and for LAMB a decay of 0.02 and clipping at
1, as published with it. Prints top-1 after the last epoch, as Markdown; ends with 1 where the best
of LARS and LAMB is less than 2 points above the best of SGD.

    python3 scripts/bench/compare_large_batch.py FOLDER [--convoy ./convoy] [--epochs 15]
        [--precision auto|fp32|bf16] [--rules sgd,lars,lamb] [--rates 1.6,3.2,6.4,12.8]
        [--jobs 2] [--accumulate 32]

FOLDER holds train and test, each with a folder of JPEG files for each class. Runs have a thread
each, --jobs of them at a time; a step sums --accumulate passes of 128 images. With fewer rules it
only prints. 2: a run failed.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

GAIN, CHANCE, DIVERGED = 2.0, 10.0, 71
RULES = {
    "sgd": (1, []),
    "lars": (1, ["optimizer.trust_coefficient=0.001"]),
    "lamb": (0.01, ["optimizer.nesterov=false", "optimizer.weight_decay=0.02",
                    "optimizer.clip_norm=1"]),
}


def train(options, rule, rate, to):
    """Top-1 in percent after the last epoch; None where training diverged."""
    factor, settings = RULES[rule]
    run = os.path.join(to, f"{rule}-{rate:g}")
    command = [options.convoy, "train", "configs/resnet20-cifar10.yaml",
               f"data.train={options.folder}/train", f"data.val={options.folder}/test",
               "train.batch_per_rank=128", f"train.accumulate={options.accumulate}",
               f"train.epochs={options.epochs}", f"train.precision={options.precision}",
               "train.eval_every=0", "schedule.warmup_epochs=3", "device.threads=1",
               f"optimizer.name={rule}", f"optimizer.lr={factor * rate:g}",
               f"run.dir={run}", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == DIVERGED:
        return None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return 100 * [record for record in records if record["event"] == "eval"][-1]["top1"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--rates", default="1.6,3.2,6.4,12.8")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=32)
    options = parser.parse_args()
    rules = options.rules.split(",")
    rates = [float(rate) for rate in options.rates.split(",")]
    with tempfile.TemporaryDirectory() as to, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {(rule, rate): pool.submit(train, options, rule, rate, to)
                for rate in rates for rule in rules}
        try:
            for (rule, rate), run in runs.items():
                print(f"{rule} at {rate:g}: {run.result()}", file=sys.stderr, flush=True)
        except (RuntimeError, KeyboardInterrupt) as error:
            pool.shutdown(cancel_futures=True)
            print(error, file=sys.stderr)
            return 2
    best = {}
    print("| | " + " | ".join(f"{rate:g}" for rate in rates) + " |\n|---|" + "---|" * len(rates))
    for rule in rules:
        found = [runs[rule, rate].result() for rate in rates]
        best[rule] = max(CHANCE if top1 is None else top1 for top1 in found)
        print(f"| `{rule}` | " + " | ".join(
            "diverged" if top1 is None else f"{top1:.2f} %" for top1 in found) + " |")
    if best.keys() != RULES.keys():
        return 0
    gain = max(best["lars"], best["lamb"]) - best["sgd"]
    print(f"\nThe best of LARS and LAMB is {gain:+.2f} points from the best of SGD.")
    return 0 if gain >= GAIN else 1


if __name__ == "__main__":
    sys.exit(main())
