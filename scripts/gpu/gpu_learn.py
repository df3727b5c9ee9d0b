#!/usr/bin/env python3
"""Reads what scripts/gpu_check.sh brought back and writes it where it is read: the tables of
docs/laboratory/gpu-measurements.md and benchmarks.md and the first lines of docs/gpu.md (between
the marks <!-- gpu_learn NAME --> and <!-- /gpu_learn -->), cuDNN's timed plans under configs/gpus.
Prints, layer by layer, what fell short of the budget. Commits nothing; a table whose measurement is
not there stays as it is.

    python3 scripts/gpu/gpu_learn.py OUTDIR [--root DIR]

The budget is a model: a convolution at 80 % of the copy's rate or 62 % of the matrix product's,
whichever takes longer, everything else at 88 % of the copy's, 3 microseconds for a launch; ceilings
and bytes are those of the run.
"""
import argparse
import collections
import csv
import datetime
import glob
import io
import json
import os
import re
import sys
import tarfile
import textwrap

CONVOLUTION_COPY, CONVOLUTION_PRODUCT, OWN_COPY, LAUNCH_MS = 0.80, 0.62, 0.88, 0.003
SHOWN = 20  # layers in a table
PLANS = re.compile(r"cudnn-[0-9]+-sm[0-9]+-[0-9]+-timed\.plans")
UNITS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1, "msecond": 1, "s": 1e3,
         "second": 1e3, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 1}


class Results:
    """files: the text of each file by name, of all parts; checks: name, status, begin, end, each
    as it went the last time; notes: why a check was not run, by name; plans: bytes by name."""

    def __init__(self, folder):
        self.files, self.ended, self.plans, self.power, self.notes = {}, {}, {}, [], {}
        archives = sorted(glob.glob(os.path.join(folder, "gpu_check_*.tar.gz")),
                          key=os.path.getmtime)
        if not archives:
            sys.exit(f"gpu_learn: {folder} has no gpu_check_*.tar.gz")
        for path in archives + sorted(glob.glob(os.path.join(folder, "gpu_plans_*.tar.gz"))):
            with tarfile.open(path) as archive:
                for member in filter(tarfile.TarInfo.isfile, archive):
                    self.take(os.path.basename(member.name), archive.extractfile(member).read())
        self.checks = sorted(self.ended.values(), key=lambda check: check[2])
        self.notes = {name: why for name, why in self.notes.items() if name not in self.ended}

    def take(self, name, data):
        if PLANS.fullmatch(name):
            if len(data) > len(self.plans.get(name, b"")):
                self.plans[name] = data
            return
        text = data.decode(errors="replace")
        if name == "checks.csv":
            rows = [(row[0], int(row[1]), float(row[2]), float(row[3]))
                    for row in csv.reader(io.StringIO(text)) if len(row) == 4]
            self.ended.update((row[0], row) for row in rows
                              if row[3] > self.ended.get(row[0], row)[2])
        elif name == "device.json" and name in self.files and (
                json.loads(text)["deviceName"] != self.json(name)["deviceName"]):
            sys.exit("gpu_learn: the parts ran on different GPUs; learn from each by itself")
        elif name == "gpu.csv":
            self.power += [sample for sample in map(power_sample, text.splitlines()) if sample]
        elif name == "summary.txt":
            self.notes.update(re.findall(r"^(?:NOT RUN|skip) +(\S+): (.*)", text, re.M))
        else:
            self.files[name] = text

    def json(self, name):
        return json.loads(self.files[name]) if name in self.files else None

    def during(self, begin, end):
        """Means of SM MHz, memory MHz, watts and degrees, and the most MiB, or None."""
        samples = [s for s in self.power if begin <= s[0] <= end]
        if not samples:
            return None
        return ([sum(s[k] for s in samples) / len(samples) for k in range(1, 5)]
                + [max(s[5] for s in samples)])

    def joules(self, begin, end, rate):
        seen = self.during(begin, end)
        return seen[2] / rate if seen and rate else None


def power_sample(line):
    """timestamp, clocks.sm, clocks.mem, power.draw, temperature.gpu, memory.used (UTC)"""
    words = line.split(", ")
    try:
        when = datetime.datetime.strptime(words[0], "%Y/%m/%d %H:%M:%S.%f")
        numbers = [float(word) for word in words[1:6]]
    except ValueError:
        return None
    return (when.replace(tzinfo=datetime.timezone.utc).timestamp(), *numbers) if len(
        numbers) == 5 else None


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def wrap(text, indent=""):
    return textwrap.fill(" ".join(text.split()), 100, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False)


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


# ---- docs/gpu.md, docs/laboratory/gpu-measurements.md ----

def device_of(results):
    described = results.json("device.json")
    return described["deviceName"] if described else "a GPU that was not described"


def state(results):
    if not results.checks:
        return None
    day = datetime.datetime.fromtimestamp(max(c[3] for c in results.checks), datetime.timezone.utc)
    bad = [name for name, status, *_ in results.checks if status]
    version = results.files.get("version.txt", "").splitlines()
    cudnn = re.search(r"found .*", results.files.get("version.txt", ""))
    return wrap(f"**Measured on {device_of(results)} on {day:%Y-%m-%d}** by "
                "`scripts/gpu_check.sh`: "
                f"checks passed: {len(results.checks) - len(bad)}, failed: {len(bad)}"
                + (f" ({', '.join(bad)})" if bad else "") + f", not run: {len(results.notes)}. "
                + ", ".join(version[:1] + ([cudnn[0]] if cudnn else [])))


def checks(results):
    if not results.checks:
        return None
    rows = [[name, "passed" if status == 0 else f"**failed**, status {status}",
             f"{end - begin:.0f} s"] for name, status, begin, end in results.checks]
    rows += [[name, "not run", why] for name, why in results.notes.items()]
    words = results.files.get("device.log", "").strip().splitlines()
    words += [line for line in results.files.get("gradients.log", "").splitlines()
              if re.match(r"(fp32|bf16|fp16)\S*: loss|  FAIL", line)]
    for precision in ("bf16", "fp16"):
        memory = results.files.get(f"memory_{precision}.log", "")
        plan = re.search(r"^on the device +(\d+)", memory, re.M)
        window = next((c[2:] for c in results.checks if c[0] == f"nodes_{precision}"), None)
        seen = window and results.during(*window)
        if plan and seen:
            words.append(f"memory in {precision}: {int(plan[1]) / 2**20:.0f} MiB planned, "
                         f"{seen[4]:.0f} MiB in use at most, CUDA's own included")
    return table(["check", "result", "time"], rows) + "\n" + "".join(
        "\n" + wrap(f"- {word}", "  ") for word in words)


def kinds(results):
    """Both precisions, by kind of operation."""
    rows = []
    for precision in ("bf16", "fp16"):
        found = results.json(f"nodes_{precision}.json")
        for kind, ms, share, tflop_s, gb_s in found["rows"] if found else []:
            limits = found["ceilings"]
            of_copy, of_product = ((100 * gb_s / limits["copy_gb_s"],
                                    100 * tflop_s / limits["product_tflop_s"])
                                   if limits else (None, None))
            rows.append([precision, f"`{kind}`", number(ms, 3), f"{share:.1f} %", number(gb_s),
                         number(of_copy), number(tflop_s), number(of_product)])
        if found:
            limits = found["ceilings"]
            against = (f"copy {limits['copy_gb_s']:,.0f} GB/s, matrix product "
                       f"{limits['product_tflop_s']:,.0f} TFLOP/s" if limits else "")
            rows.append([precision, "step", found["figures"]["step_ms"], "", "", "", against, ""])
    return table(["", "operation", "ms", "share", "GB/s", "% of copy", "TFLOP/s", "% of product"],
                 rows) if rows else None


# ---- what fell short ----

def layers_of(results, name):
    return [dict(row, ms=float(row["ms"]), bytes=float(row["bytes"]), flops=float(row["flops"]))
            for row in csv.DictReader(io.StringIO(results.files.get(name, "")))]


def budget_ms(row, limits):
    copy_ms = row["bytes"] / limits["copy_gb_s"] * 1e-6
    if row["operation"].startswith(("conv2d", "linear")):
        product_ms = row["flops"] / limits["product_tflop_s"] * 1e-9
        return LAUNCH_MS + max(copy_ms / CONVOLUTION_COPY, product_ms / CONVOLUTION_PRODUCT)
    return LAUNCH_MS + copy_ms / OWN_COPY


def ncu_layers(text, names):
    """Of each layer: milliseconds, bytes of DRAM and kernels, as ncu counted them. Rows are one
    metric of one kernel; the ranges that hold it are in columns of their own."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if '"Metric Name"' in line), None)
    found = collections.defaultdict(lambda: {"ms": 0.0, "bytes": 0.0, "kernels": set()})
    for row in csv.DictReader(lines[start:]) if start is not None else []:
        ranges = " ".join(value or "" for key, value in row.items() if "Push/Pop" in (key or ""))
        layer = next((w for w in reversed(re.findall(r"[A-Za-z0-9_.]+", ranges)) if w in names),
                     "not in a layer")
        metric = row["Metric Name"]
        value = float(row["Metric Value"].replace(",", "")) * UNITS.get(row["Metric Unit"], 1)
        found[layer]["kernels"].add(row["ID"])
        if metric.startswith("gpu__time"):
            found[layer]["ms"] += value
        elif metric.startswith("dram__bytes"):
            found[layer]["bytes"] += value
    return found


def short_of(results, precision):
    """Rows of layers, farthest over the budget first: over, layer, ...; None without ceilings."""
    nodes = results.json(f"nodes_{precision}.json")
    rows = layers_of(results, f"layers_{precision}.csv")
    if not rows or not nodes or not nodes["ceilings"]:
        return None
    counted = ncu_layers(results.files.get(f"ncu_{precision}.csv", ""), {r["layer"] for r in rows})
    for row in rows:
        row["budget"] = budget_ms(row, nodes["ceilings"])
        row["over"] = row["ms"] - row["budget"]
        row["dram"] = counted[row["layer"]]["bytes"] if row["layer"] in counted else None
    return sorted(rows, key=lambda row: -row["over"])


def short(results):
    parts = []
    for precision in ("bf16", "fp16"):
        rows = short_of(results, precision)
        if not rows:
            continue
        total, budget = sum(r["ms"] for r in rows), sum(r["budget"] for r in rows)
        over = [row for row in rows if row["over"] > 0.01 and row["over"] > 0.05 * row["budget"]]
        parts.append(wrap(f"In {precision} the step's parts take {total:.2f} ms one after another, "
                          f"budgeted at {budget:.2f}; {len(over)} of {len(rows)} are over by more "
                          "than 5 % and 0.01 ms. The farthest:") + "\n\n"
                     + table(["layer", "by", "ms", "budget", "over", "MB", "MB by ncu"],
                             [[f"`{r['layer']}`", r["by"], number(r["ms"], 3),
                               number(r["budget"], 3), number(r["over"], 3),
                               number(r["bytes"] / 1e6, 1),
                               number(r["dram"] and r["dram"] / 1e6, 1)] for r in over[:SHOWN]]))
    return "\n\n".join(parts) or None


def print_short(results):
    for precision in ("bf16", "fp16"):
        for row in short_of(results, precision) or []:
            if row["over"] > 0:
                print(f"{precision} {row['layer']:40s} {row['operation']:24s} {row['ms']:8.3f} ms, "
                      f"budget {row['budget']:8.3f}, over {row['over']:8.3f}; {row['by']}")


# ---- docs/laboratory/benchmarks.md ----

def mean_joules(results, found, key):
    seen = [results.joules(begin, end, rate)
            for name, rate, begin, end in found["windows"] if name == key]
    seen = [value for value in seen if value]
    return sum(seen) / len(seen) if seen else None


def peers(results):
    """Convoy beside the best of all PyTorch variants of the same workload, whichever check timed
    them."""
    rows, found = [], []
    for name in ("peers_bf16", "peers_autotune", "peers_fp16", "peers_b0"):
        found += [(f"{f['model']}, {f['size']} px, batch {f['batch']}, {f['precision']}", f)
                  for f in results.json(f"{name}.json") or []]
    for workload, one in found:
        best = max((rate for other, f in found if other == workload
                    for key, rate in f["medians"].items() if key != "convoy"), default=None)
        for key, rate in one["medians"].items():
            ratio = f"**{rate / best:.2f}**" if key == "convoy" and best else ""
            rows.append([workload, key, number(rate), ratio,
                         number(mean_joules(results, one, key), 3)])
    return f"{device_of(results)}:\n\n" + table(
        ["workload", "", "images/s", "Convoy / best PyTorch", "J an image"],
        rows) if rows else None


def matrix(results):
    rows = []
    for name in ("matrix_bf16", "matrix_fp16", "matrix_b0", "matrix_vit"):
        found = results.json(f"{name}.json")
        if not found or "" not in found["rates"]:
            continue
        medians = {key: sorted(rates)[len(rates) // 2] for key, rates in found["rates"].items()}
        for key in sorted(medians, key=lambda k: -medians[k]):
            rows.append([found["what"], f"`{key}`" if key else "as it is", number(medians[key]),
                         f"{medians[key] / medians['']:.3f}",
                         number(mean_joules(results, found, key), 3)])
        rows += [[found["what"], f"`{key}`", "left out", why, ""]
                 for key, why in found["left_out"].items()]
    return f"{device_of(results)}:\n\n" + table(
        ["", "settings", "images/s", "over as it is", "J an image"], rows) if rows else None


def runs(results):
    lines = []
    if "from_files.txt" in results.files:
        lines.append(results.files["from_files.txt"].strip())
    for precision in ("fp32", "bf16", "fp16"):
        evaluations = [record["top1"] for record in map(json.loads, filter(
            None, results.files.get(f"cifar_{precision}.jsonl", "").splitlines()))
            if record.get("event") == "eval" and "top1" in record]
        if evaluations:
            lines.append(f"ResNet-20 on CIFAR-10 in {precision}: top-1 "
                         f"{100 * evaluations[-1]:.2f} %")
    return "\n".join(wrap(f"- {device_of(results)}: {line}", "  ") for line in lines) or None


SECTIONS = {"docs/gpu.md": {"state": state},
            "docs/laboratory/gpu-measurements.md": {"checks": checks, "kinds": kinds,
                                                    "short": short},
            "docs/laboratory/benchmarks.md": {"peers": peers, "matrix": matrix, "runs": runs}}


def fill(path, sections, results):
    with open(path) as file:
        text = file.read()
    for name, section in sections.items():
        mark = re.compile(rf"(<!-- gpu_learn {name} -->\n).*?(<!-- /gpu_learn -->)", re.S)
        if not mark.search(text):
            sys.exit(f"gpu_learn: {path} has no mark <!-- gpu_learn {name} -->")
        body = section(results)
        print(f"{path}: {name} {'written' if body else 'not measured, as it was'}")
        if body:
            text = mark.sub(lambda m, body=body: f"{m[1]}{body}\n{m[2]}", text)
    with open(path, "w") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", metavar="OUTDIR")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."),
                        help="the tree to write in")
    parser.add_argument("--rehearsed", action="store_true", help="take a rehearsal; for tests")
    args = parser.parse_args()
    results = Results(args.folder)
    if "rehearsed.txt" in results.files and not args.rehearsed:
        sys.exit("gpu_learn: a rehearsal is no measurement (--rehearsed tries the tables)")
    for path, sections in SECTIONS.items():
        fill(os.path.join(args.root, path), sections, results)
    for name, data in results.plans.items():
        with open(os.path.join(args.root, "configs", "gpus", name), "wb") as file:
            file.write(data)
        print(f"configs/gpus/{name}: {len(data)} bytes")
    print_short(results)


if __name__ == "__main__":
    main()
