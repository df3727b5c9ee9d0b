#!/usr/bin/env python3
"""Where the time of a training step goes on a GPU, by kind of operation, against ceilings that are
measured in the same run.

The ceilings are the bandwidth of a large copy (bytes read and written) and the rate of a large
matrix product in the step's precision, both by PyTorch, whatever it takes for them; no part of
build or tests. A kind of operation that is limited by memory should come near the first, a
convolution near the nearer of the two.

    python3 scripts/bench_gpu_nodes.py [--precision bf16] [--batch 256] [--rate-only] [--json FILE]
"""
import argparse
import json
import subprocess
import sys
import time

KINDS = "operation"


def convoy_command(args, precision):
    command = [args.convoy, "bench", "step", "--steps", str(args.steps),
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
    """GB/s of a copy and TFLOP/s of a matrix product of random numbers."""
    import torch

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    add_arguments(parser)
    parser.add_argument("--precision", default="bf16", choices=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--rate-only", action="store_true", help="images/s alone")
    args = parser.parse_args()
    command = convoy_command(args, args.precision)
    what = (f"{args.model}, {args.size} px, batch {args.batch}, {args.precision}"
            f"{''.join(', ' + s for s in args.set)}")
    if args.rate_only:
        out = run_convoy(command)
        values = figures(out)
        print_fusions(out)
        print(f"{what}: {float(values['images_per_s']):.0f} images/s, "
              f"{values['step_ms']} ms a step")
        return
    limits = ceilings(args.device, args.precision)
    out = run_convoy(command + ["--nodes"])
    values, rows = figures(out), rows_of(out)
    print_fusions(out)
    print(f"\n{what}: {float(values['images_per_s']):.0f} images/s, {values['step_ms']} ms a step; "
          "kinds of operation one after another:")
    print(f"  {'operation':22s} {'ms':>8s} {'share':>6s} {'GB/s':>7s} {'of copy':>8s} "
          f"{'TFLOP/s':>8s} {'of product':>10s}")
    for kind, ms, share, tflop_s, gb_s in rows:
        print(f"  {kind:22s} {ms:8.3f} {share:5.1f}% {gb_s:7.0f} "
              f"{100 * gb_s / limits['copy_gb_s']:7.1f}% {tflop_s:8.1f} "
              f"{100 * tflop_s / limits['product_tflop_s']:9.1f}%")
    print(f"  {'sum':22s} {sum(r[1] for r in rows):8.3f}")
    for key in ("images_per_s", "data_wait_ms", "allocations"):
        print(f"{key} {values[key]}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"what": what, "ceilings": limits, "figures": values, "rows": rows}, file,
                      indent=1)


if __name__ == "__main__":
    main()
