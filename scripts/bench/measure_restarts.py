#!/usr/bin/env python3
"""measure_restarts.py DIR [--kills N] [--checkpoints N] [--mpirun-args ARGS] [key=value...] - how
long a failure costs on one node, and how long a checkpoint.

Trains ResNet-50 (1000 classes, so its whole state) under `convoy launch -n 2`, a thread and an
image for each rank, on JPEG files made in DIR. N times (20) a rank drawn at random is killed with
-9 at a random moment, and the seconds until the end of the first step after the restart are split
by the records of the run itself, launch.jsonl and metrics.jsonl:

  detection    kill -> the supervisor has seen mpirun's end
  supervisor   -> mpirun is started again
  mpirun, MPI  -> the ranks have met, read the config and have the folder's lock
  data         datasets opened (data_seconds of the record "start")
  plans        programs prepared (plans_seconds)
  checkpoint   -> memory taken, checkpoint read, checked and given to all ranks (record "resume")
  first step   -> its record

Then N checkpoints (100), each three steps after the one before: what a step with a checkpoint
behind it takes until the next step's end, beyond two steps without. Needs a build (make) and
make_shapes (make build); DIR is used again."""
import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

RANKS = 2
PARTS = ["detection", "supervisor", "mpirun, MPI", "data", "plans", "checkpoint", "first step"]


def records(path):
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def wait_for(what, found, child, limit_s=300):
    end = time.time() + limit_s
    while time.time() < end:
        value = found()
        if value:
            return value
        if child.poll() is not None:
            sys.exit(f"the run has ended with {child.returncode} while waiting for {what}")
        time.sleep(0.02)
    sys.exit(f"gave up after {limit_s} s of waiting for {what}")


def ranks_of(run):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if len(words) > 1 and words[1] == b"train" and f"run.dir={run}".encode() in words:
            found.append(int(pid))
    return found


def start(args, run, settings, log):
    command = [os.environ.get("CONVOY", "./convoy"), "launch", "-n", str(RANKS),
               "--max-restarts", "1000"]
    if args.mpirun_args:
        command += ["--mpirun-args", args.mpirun_args]
    command += ["--", "train", "configs/resnet50-imagenet.yaml", f"run.dir={run}",
                f"data.train={args.dir}/data/train", "data.threads=1", "data.readers=1",
                "model.classes=1000", "train.batch_per_rank=1", "train.epochs=1000",
                "device.backend=cpu", "device.threads=1", "train.precision=fp32", "log.every=1",
                "checkpoint.every_epochs=0", *settings, *args.settings]
    return subprocess.Popen(command, stdout=log, stderr=log)


def since(events, name, t):
    return next((e for e in events if e["event"] == name and e["time"] >= t), None)


def split_of(run, killed, step):
    launch, metrics = records(f"{run}/launch.jsonl"), records(f"{run}/metrics.jsonl")
    ended, again = since(launch, "exit", killed), since(launch, "run", killed)
    begun, resumed = since(metrics, "start", killed), since(metrics, "resume", killed)
    ready = begun["time"] - begun["data_seconds"] - begun["plans_seconds"]
    return [ended["time"] - killed, again["time"] - ended["time"], ready - again["time"],
            begun["data_seconds"], begun["plans_seconds"], resumed["time"] - begun["time"],
            step["time"] - resumed["time"]]


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def first_step(run, killed):
    metrics = records(f"{run}/metrics.jsonl")
    resumed = since(metrics, "resume", killed)
    return resumed and since(metrics, "step", resumed["time"])


def measure_kills(args, log):
    run, rng, splits = f"{args.dir}/kills", random.Random(1), []
    child = start(args, run, ["checkpoint.every_steps=5"], log)
    asked = time.time()
    for n in range(args.kills):
        wait_for("a checkpoint", lambda: since(records(f"{run}/metrics.jsonl"), "checkpoint",
                                               asked), child)
        time.sleep(rng.uniform(0, 2))
        victims = ranks_of(run)
        killed = time.time()
        os.kill(rng.choice(victims), signal.SIGKILL)
        step = wait_for("a step", lambda: first_step(run, killed), child)
        splits.append(split_of(run, killed, step))
        asked = step["time"]
        print(f"kill {n + 1}: {sum(splits[-1]):.2f} s", flush=True)
    child.send_signal(signal.SIGTERM)
    child.wait()
    print(f"\n| {len(splits)} kills, s | median | p90 | most |\n|---|---|---|---|")
    for name, values in [*zip(PARTS, zip(*splits)), ("**all**", [sum(s) for s in splits])]:
        print(f"| {name} | {statistics.median(values):.2f} | {quantile(values, 0.9):.2f} | "
              f"{max(values):.2f} |")


def measure_checkpoints(args, log):
    run, every = f"{args.dir}/checkpoints", 3
    child = start(args, run, [f"checkpoint.every_steps={every}",
                              f"train.max_steps={every * args.checkpoints + 2}"], log)
    child.wait()
    metrics = records(f"{run}/metrics.jsonl")
    ends = {e["step"]: e["time"] for e in metrics if e["event"] == "step"}
    steps = sorted(ends)[1:]
    # behind the last step a run waits for its checkpoint to be on the disk
    waits = [e["host_seconds"] for e in metrics if e["event"] == "spent" and
             e["part"] == "checkpoint" and e["step"] in ends and e["step"] < steps[-1]]
    plain = [ends[s] - ends[s - 1] for s in steps if s - 1 in ends and s % every == 0]
    step_s = statistics.median(plain)
    # the checkpoint and the step that its writer runs beside
    stalls = [ends[s] - ends[s - 1] - step_s for s in steps if s - 1 in ends and s % every == 1]
    print(f"\na step takes {step_s:.2f} s (median of {len(plain)} before a checkpoint, p99 "
          f"{quantile(plain, 0.99):.2f})")
    for name, values in [("stops training", waits), ("and slows the next step", stalls)]:
        p99 = quantile(values, 0.99)
        print(f"a checkpoint {name}: median {statistics.median(values):.2f} s, p99 {p99:.2f} s of "
              f"{len(values)}: {p99 / step_s:.2f} of a step")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("dir")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--checkpoints", type=int, default=100)
    parser.add_argument("--mpirun-args", default="")
    args, args.settings = parser.parse_known_args()
    args.dir = os.path.abspath(args.dir)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    if not os.path.isdir(f"{args.dir}/data/train"):
        subprocess.run(["build/make_shapes", f"{args.dir}/data", "--train", "20", "--val", "1",
                        "--size", "256"], check=True)
    for name in ["kills", "checkpoints"]:
        subprocess.run(["rm", "-rf", f"{args.dir}/{name}"], check=True)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    with open(f"{args.dir}/log.txt", "w", encoding="utf-8") as log:
        if args.kills:
            measure_kills(args, log)
        if args.checkpoints:
            measure_checkpoints(args, log)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
