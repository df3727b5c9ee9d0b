#!/usr/bin/env python3
"""check_events.py RUN - reads a run's event files with TensorBoard's own reader and compares every
scalar with metrics.jsonl.

Needs the package tensorboard (pip install tensorboard setuptools); no test runs it. Prints what it
compared; exits 1 where a value differs or is missing.
"""
import json
import math
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STEP_TAGS = {"train/loss": "loss", "train/lr": "lr"}
EVAL_TAGS = {"eval/loss": "loss", "eval/top1": "top1", "eval/top5": "top5"}


def records(run, event):
    """The last record of each step; a resume leaves behind what came later than its checkpoint,
    as TensorBoard does."""
    found = {}
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record["event"] == "resume":
                found = {step: old for step, old in found.items() if step <= record["step"]}
            if record["event"] == event:
                found[record["step"]] = record
    return found


def same(got, want):
    want = math.nan if want is None else want
    return (math.isnan(got) and math.isnan(want)) or abs(got - want) <= 1e-6 * max(1.0, abs(want))


def main():
    run = sys.argv[1]
    events = EventAccumulator(f"{run}/tensorboard", size_guidance={"scalars": 0})
    events.Reload()
    bad = compared = 0
    for tags, event in ((STEP_TAGS, "step"), (EVAL_TAGS, "eval")):
        want = records(run, event)
        for tag, key in tags.items():
            if not want:
                continue
            got = {e.step: e.value for e in events.Scalars(tag)}
            for step in sorted(set(got) | set(want)):
                compared += 1
                if step not in got or step not in want or not same(got[step], want[step][key]):
                    print(f"{tag} step {step}: {got.get(step)} in the event file, "
                          f"{want.get(step, {}).get(key)} in metrics.jsonl")
                    bad += 1
    print(f"{compared} values compared, {bad} differ")
    return bad > 0 or compared == 0


if __name__ == "__main__":
    sys.exit(main())
