#!/usr/bin/env python3
"""Does a teacher help? configs/scratch.yaml's ResNet-18 with and without a ResNet-50 that the same
recipe trained on the same images as its teacher, from each of several seeds. Prints top-1 and loss
of the last weights over all validation images, means and the mean difference with its standard
error.

    python3 scripts/bench/compare_distil.py DATA OUT [--convoy ./convoy] [--seeds 3] [--epochs 30]
        [--teacher-epochs 60] [--student resnet18] [--teacher resnet50] [KEY=VALUE ...]

DATA has train/ and val/ with a folder for each class. Runs lie in OUT; the same command again goes
on where they stopped.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs/scratch.yaml")


def train(options, name, epochs, model, seed, *keys):
    folder, begun = os.path.join(options.out, name), time.monotonic()
    subprocess.run([options.convoy, "train", CONFIG, f"data.dir={options.data}",
                    f"run.dir={folder}", f"model.name={model}", f"train.epochs={epochs}",
                    f"train.seed={seed}", "train.eval_every=0", *options.keys, *keys],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        last = [r for r in map(json.loads, file) if r["event"] == "eval"][-1]
    print("%s: top-1 %.2f, loss %.4f; %.1f minutes" % (
        name, 100 * last["top1"], last["loss"], (time.monotonic() - begun) / 60), flush=True)
    return 100 * last["top1"], last["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in "data", "out":
        parser.add_argument(name)
    parser.add_argument("keys", nargs="*", metavar="KEY=VALUE")
    for name, default in (("--convoy", "./convoy"), ("--student", "resnet18"),
                          ("--teacher", "resnet50"), ("--seeds", 3), ("--epochs", 30),
                          ("--teacher-epochs", 60)):
        parser.add_argument(name, default=default, type=type(default))
    options = parser.parse_intermixed_args()
    train(options, "teacher", options.teacher_epochs, options.teacher, 100)
    taught = f"train.teacher={os.path.join(options.out, 'teacher')}"
    pairs = [(train(options, f"plain-{seed}", options.epochs, options.student, seed),
              train(options, f"taught-{seed}", options.epochs, options.student, seed, taught))
             for seed in range(1, options.seeds + 1)]
    for k, what in enumerate(("top-1", "loss")):
        plain, distilled = ([pair[i][k] for pair in pairs] for i in range(2))
        apart = [b - a for a, b in zip(plain, distilled)]
        error = statistics.stdev(apart) / len(apart) ** 0.5 if len(apart) > 1 else float("nan")
        means = tuple(map(statistics.mean, (plain, distilled, apart)))
        print("%s: %.3f without a teacher, %.3f with; difference %.3f +- %.3f"
              % (what, *means, error))


main()
