#!/usr/bin/env python3
"""The records of a run, sent to a tracker while it trains or afterwards.

    follow.py RUN --to wandb|mlflow|trackio [--project NAME] [--once]

RUN is the folder of a run, which need not exist yet. Numbers go by the names of the records,
step/loss, eval/top1, gpu0/power_w, at the step of the record; the configuration goes along. Waits
for more until the run has ended (a run that was stopped, code 75, is waited for), or with --once
sends what is there. RUN/follow-TRACKER.json keeps the tracker's run and how many lines were sent.
So when a run is requeued, or the follower is started again, it continues the same run. Steps that a
run repeats, continued or after a loss that was not finite, are sent once, as they were first. Needs
the tracker's package (pip install wandb, mlflow or trackio). Where the tracker keeps its runs is
set as always: WANDB_MODE, MLFLOW_TRACKING_URI, TRACKIO_DIR and so on. Exit codes: 64 command line,
65 a file cannot be used, 66 it is missing, 74 not written, 78 the package is missing."""
import argparse
import importlib
import json
import os
import sys
import time

STOPPED = 75


def refuse(code, text):
    print("follow: error: " + " ".join(str(text).split()), file=sys.stderr)
    sys.exit(code)


def config_of(run):
    """section.key: value of RUN/config.yaml, which convoy writes with one key a line."""
    values, section = {}, ""
    with open(os.path.join(run, "config.yaml"), encoding="utf-8") as f:
        for line in f:
            key, _, value = line.rstrip("\n").partition(":")
            if line.startswith(" "):
                values["%s.%s" % (section, key.strip())] = value.strip().strip('"')
            elif value.strip() == "":
                section = key
    return values


class Wandb:
    def __init__(self, wandb, project, name, config, known):
        self.run = wandb.init(project=project, name=name, id=known, resume="allow", config=config)
        self.id = self.run.id

    def log(self, step, values, when):
        self.run.log(values, step=step)

    def flush(self):
        pass

    def close(self):
        self.run.finish()


class Trackio(Wandb):
    def __init__(self, trackio, project, name, config, known):
        self.id = known or "%s-%x" % (name, int(time.time()))
        self.run = trackio.init(project=project, name=self.id, resume="allow", config=config)


class Mlflow:
    def __init__(self, mlflow, project, name, config, known):
        self.metric, self.client, self.waiting = mlflow.entities.Metric, mlflow.MlflowClient(), []
        experiment = mlflow.set_experiment(project).experiment_id
        self.id = known or self.client.create_run(experiment, run_name=name).info.run_id
        for key, value in config.items() if known is None else ():
            self.client.log_param(self.id, key, value)

    def log(self, step, values, when):
        self.waiting += [self.metric(key, value, int(1000 * when), step)
                         for key, value in values.items()]

    def flush(self):
        while self.waiting:  # a server takes at most 1000 at once
            self.client.log_batch(self.id, metrics=self.waiting[:1000])
            del self.waiting[:1000]

    def close(self):
        self.client.set_terminated(self.id)


def records(path, once):
    """Whole lines as they come; None where there is nothing new for now."""
    while not os.path.exists(path) and not once:
        time.sleep(1)
    with open(path, encoding="utf-8", errors="replace") as f:
        line = ""
        while True:
            line += f.readline()
            if line.endswith("\n"):
                try:
                    yield json.loads(line) or {}
                except ValueError:
                    yield {}
                line = ""
            elif once:
                return
            else:
                yield None
                time.sleep(1)


def is_record(record):
    types = {"event": (str,), "time": (int, float), "step": (int,)}
    return isinstance(record, dict) and all(
        type(record.get(key, 0 if key == "step" else None)) in types[key] for key in types)


def kind_of(record):
    return "gpu%s" % record.get("gpu") if record["event"] == "gpu" else record["event"]


def numbers(record):
    if record.get("foreign") or record["event"] == "start":
        return {}
    return {"%s/%s" % (kind_of(record), key): value for key, value in record.items()
            if type(value) in (int, float) and key not in ("time", "step", "gpu")}


class Repeats:
    """Tells records of steps that were recorded before the run went back."""

    def __init__(self):
        self.step, self.kinds = 0, set()  # the highest so far, and what was recorded at it
        self.old_step, self.old_kinds = 0, set()  # the same when the run last went back

    def has(self, step, kind):
        if step > self.step:
            self.step, self.kinds = step, set()
        if step == self.step:
            self.kinds.add(kind)
        return step < self.old_step or step == self.old_step and kind in self.old_kinds

    def may_come(self):
        self.old_step, self.old_kinds = self.step, set(self.kinds)


def state_in(path):
    """The tracker's run, and how many lines it has."""
    if not os.path.exists(path):
        return {"id": None, "lines": 0}
    with open(path, encoding="utf-8") as f:
        try:
            state = json.load(f)
            if type(state["id"]) is str and type(state["lines"]) is int:
                return state
        except (ValueError, TypeError, LookupError):
            pass
    refuse(65, "%s: damaged; without it a new run of the tracker begins" % path)


def follow(options, tracker_class):
    try:
        package = importlib.import_module(options.to)
    except ImportError as missing:
        refuse(78, "needs %s: pip install %s (%s)" % (options.to, options.to, missing))
    path, kept = (os.path.join(options.run, name) for name in
                  ("metrics.jsonl", "follow-%s.json" % options.to))
    state, repeats = state_in(kept), Repeats()
    tracker, step, line, unsaved, ended = None, 0, 0, 0, False

    def save():
        tracker.flush()
        with open(kept + ".new", "w") as f:
            json.dump({"id": tracker.id, "lines": max(line, state["lines"])}, f)
        os.replace(kept + ".new", kept)

    for record in records(path, options.once):
        if record is None or unsaved == 1000:
            if unsaved:
                save()
            unsaved = 0
        if record is None and ended:
            break
        if record is None:
            continue
        line += 1
        if not is_record(record):
            print("follow: warning: %s, line %d: not a record, left out" % (path, line),
                  file=sys.stderr)
            continue
        if tracker is None:
            name = os.path.basename(os.path.abspath(options.run))
            tracker = tracker_class(package, options.project, name, config_of(options.run),
                                    state["id"])
        step = record.get("step", step)
        values = numbers(record)
        if values and not repeats.has(step, kind_of(record)) and line > state["lines"]:
            tracker.log(repeats.step, values, record["time"])  # no lower one than before
            unsaved += 1
        if record["event"] in ("start", "diverged"):
            repeats.may_come()
        ended = record["event"] == "done" and record.get("code") != STOPPED
    if tracker:
        save()
        tracker.close()


def main():
    trackers = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.error = lambda text: refuse(64, text)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", choices=trackers, required=True)
    parser.add_argument("--project", default="convoy")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    try:
        follow(options, trackers[options.to])
    except OSError as error:
        refuse(66 if isinstance(error, FileNotFoundError) else 74,
               "%s: %s" % (error.filename, error.strerror) if error.filename else error)
    except KeyboardInterrupt:
        sys.exit(130)


main()
