#!/usr/bin/env python3
"""Where the time of a training step goes on a GPU, by kind of operation, against ceilings that are
measured in the same run; or which settings make it faster.

The ceilings are the bandwidth of a large copy (bytes read and written) and the rate of a large
matrix product in the step's precision, both by PyTorch, whatever it takes for them; no part of
build or tests. A kind of operation that is limited by memory should come near the first, a
convolution near the nearer of the two.

    python3 scripts/bench/bench_gpu_nodes.py [--precision bf16] [--batch 256] [--json FILE]
                                       [--layers FILE] [--rate-only | --against SETTINGS...]

--against times the command alone, then with each of these "key=value key=value ..." beside it, and
itself again in the middle and at the end; the table is by speed. What this convoy does not know is
named and left out.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

KINDS = "operation"


def convoy_command(args, precision):
    command = [args.convoy, "bench", "step", "--verbose", "--steps", str(args.steps),
               "--set", "device.backend=cuda", "--set", f"train.precision={precision}",
               "--set", f"model.name={args.model}", "--set", "model.classes=1000",
               "--set", f"data.image_size={args.size}",
               "--set", f"data.eval_resize={args.size}",
               "--set", f"train.batch_per_rank={args.batch}"]
    if args.plan_cache:
        command += ["--set", f"device.plan_cache={args.plan_cache}"]
    for setting in args.set:
        command += ["--set", setting]
    return command


def run_convoy(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n"
                 f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def enough_steps(args, command):
    """With --seconds, puts about so many seconds' steps into the command, by what its first run
    shows; args keeps that for the next. Returns the number of steps."""
    if args.seconds and not getattr(args, "guess", None):
        args.guess = float(figures(run_convoy(command))["mean_images_per_s"])
    steps = max(args.steps, round(args.seconds * (args.guess if args.seconds else 0) / args.batch))
    command[command.index("--steps") + 1] = str(steps)
    return steps


def convoy_rate(args, precision, settings=()):
    """Images over wall time of all steps, and when they ran."""
    command = convoy_command(args, precision)
    for setting in settings:
        command += ["--set", setting]
    steps = enough_steps(args, command)
    found = figures(run_convoy(command))
    rate, batch = float(found["mean_images_per_s"]), int(found["global_batch"])
    end = time.time()
    return rate, [end - 0.9 * steps * batch / rate, end]


def print_fusions(out):
    """What was fused (device.fuse), as convoy says it."""
    for line in out.splitlines():
        if "device.fuse" in line:
            print(line.strip())


def figures(out):
    """The lines "name value" of convoy bench step."""
    words = (line.split() for line in out.splitlines())
    return {w[0]: w[1] for w in words if len(w) == 2}


def add_arguments(parser):
    parser.add_argument("--convoy", default="./convoy")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"],
                        help="where PyTorch runs; cpu: only to see that the script runs")
    parser.add_argument("--seconds", type=float, default=0,
                        help="at least so long a measurement, rather than --steps: power and clocks"
                             " settle")
    parser.add_argument("--plan-cache", help="folder for chosen convolution plans")
    parser.add_argument("--set", action="append", default=[],
                        help="key=value for convoy; may be repeated")
    parser.add_argument("--json")


def best_seconds(run, wait, repeats=5):
    run()
    wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)


def ceilings(device, precision):
    """GB/s of a copy and TFLOP/s of a matrix product of random numbers; None without PyTorch."""
    try:
        import torch
    except ImportError:
        print("no PyTorch here: no ceilings", flush=True)
        return None

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    count, size = (1 << 30, 8192) if device == "cuda" else (1 << 22, 256)
    source = torch.randint(0, 255, (count,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = 2 * count / best_seconds(lambda: target.copy_(source), wait) * 1e-9
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    product = 2 * size**3 / best_seconds(lambda: a @ b, wait) * 1e-12
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}: copy {copy:.0f} GB/s, {precision} matrix "
          f"product {product:.1f} TFLOP/s", flush=True)
    return {"device": name, "copy_gb_s": copy, "product_tflop_s": product}


def rows_of(out):
    """The table behind the line that begins with "operation": kind, ms, share, TFLOP/s, GB/s."""
    rows, inside = [], False
    for line in out.splitlines():
        words = line.split()
        if inside and len(words) == 5:
            rows.append((words[0], float(words[1]), float(words[2].rstrip("%")), float(words[3]),
                         float(words[4])))
        elif inside and words and words[0] == "sum":
            return rows
        inside = inside or bool(words and words[0] == KINDS)
    sys.exit(f"convoy printed no table of operations:\n{out[-2000:]}")


def rank(args):
    """A/B/A: the command, variants, the command in the middle and at the end."""
    half = (len(args.against) + 1) // 2
    plan = ["", *args.against[:half], "", *args.against[half:], ""]
    rates, windows, left_out = {}, [], {}
    for variant in plan:
        try:
            rate, window = convoy_rate(args, args.precision, variant.split())
        except SystemExit as error:
            left_out[variant] = str(error).strip().splitlines()[-1]
            print(f"  {variant or 'as it is'}: left out: {left_out[variant]}", flush=True)
            continue
        rates.setdefault(variant, []).append(rate)
        windows.append([variant, rate, *window])
        print(f"  {variant or 'as it is'}: {rate:.0f} images/s", flush=True)
        if args.json:
            with open(args.json, "w") as file:
                json.dump({"what": what(args), "rates": rates, "windows": windows,
                           "left_out": left_out}, file, indent=1)
    if "" not in rates:
        sys.exit("the command itself did not run")
    base = statistics.median(rates[""])
    print(f"\n{what(args)}; as it is, first to last: "
          + ", ".join(f"{rate:.0f}" for rate in rates[""]))
    for variant in sorted(rates, key=lambda v: -statistics.median(rates[v])):
        rate = statistics.median(rates[variant])
        print(f"  {variant or 'as it is':56s} {rate:9.0f} images/s {rate / base:7.3f}")


def what(args):
    return (f"{args.model}, {args.size} px, batch {args.batch}, {args.precision}"
            f"{''.join(', ' + s for s in args.set)}")


def share(value, limits, key):
    return f"{100 * value / limits[key]:.1f}%" if limits else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    add_arguments(parser)
    parser.add_argument("--precision", default="bf16", choices=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--rate-only", action="store_true", help="images/s alone")
    parser.add_argument("--against", nargs="+", metavar="SETTINGS", help="ranks variants")
    parser.add_argument("--layers", help="file for times by layer, as convoy bench writes it")
    parser.add_argument("--verbose", action="store_true", help="also all that convoy says")
    args = parser.parse_args()
    if args.against:
        rank(args)
        return
    command = convoy_command(args, args.precision)
    limits = None if args.rate_only else ceilings(args.device, args.precision)
    if args.verbose:
        print(run_convoy(command + ["--verbose"]))  # plans are chosen here
    enough_steps(args, command)
    if not args.rate_only:
        command += ["--nodes"] + (["--layers", args.layers] if args.layers else [])
    out = run_convoy(command)
    values = figures(out)
    print_fusions(out)
    if args.rate_only:
        print(f"{what(args)}: {float(values['images_per_s']):.0f} images/s, "
              f"{values['step_ms']} ms a step")
        return
    rows = rows_of(out)
    print(f"\n{what(args)}: {float(values['images_per_s']):.0f} images/s, "
          f"{values['step_ms']} ms a step; kinds of operation one after another:")
    print(f"  {'operation':22s} {'ms':>8s} {'share':>6s} {'GB/s':>7s} {'of copy':>8s} "
          f"{'TFLOP/s':>8s} {'of product':>10s}")
    for kind, ms, portion, tflop_s, gb_s in rows:
        print(f"  {kind:22s} {ms:8.3f} {portion:5.1f}% {gb_s:7.0f} "
              f"{share(gb_s, limits, 'copy_gb_s'):>8s} {tflop_s:8.1f} "
              f"{share(tflop_s, limits, 'product_tflop_s'):>10s}")
    print(f"  {'sum':22s} {sum(r[1] for r in rows):8.3f}")
    for key in ("images_per_s", "data_wait_ms", "allocations"):
        print(f"{key} {values[key]}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"what": what(args), "batch": args.batch, "ceilings": limits,
                       "figures": values, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
