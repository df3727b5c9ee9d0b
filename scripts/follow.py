#!/usr/bin/env python3
"""The records of a run, sent to a tracker while it trains or afterwards.

    follow.py RUN --to wandb|mlflow|trackio [--project NAME] [--once]

RUN is the folder of a run, which need not exist yet. Numbers go by the names of the records,
step/loss, eval/top1, gpu0/power_w, at the step of the record; the configuration goes along. Waits
for more until the run has ended (a run that was stopped, code 75, is waited for), or with --once
sends what is there. RUN/follow-TRACKER.json keeps the tracker's run and the last step sent. So when
a run is requeued, or the follower is started again, it continues the same run, and steps that a
continued run repeats are sent once (but again after a loss that was not finite). Needs the
tracker's package (pip install wandb, mlflow or trackio). Where the tracker keeps its runs is set as
always: WANDB_MODE, MLFLOW_TRACKING_URI, TRACKIO_DIR and so on."""
import argparse
import importlib
import json
import os
import sys
import time

STOPPED = 75


def config_of(run):
    """section.key: value of RUN/config.yaml, which convoy writes with one key a line."""
    values, section = {}, ""
    with open(os.path.join(run, "config.yaml")) as f:
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
    with open(path) as f:
        line = ""
        while True:
            line += f.readline()
            if line.endswith("\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    print("follow: a line that is not JSON is left out", file=sys.stderr)
                line = ""
            elif once:
                return
            else:
                yield None
                time.sleep(1)


def numbers(record):
    kind = "gpu%s" % record["gpu"] if record["event"] == "gpu" else record["event"]
    return {"%s/%s" % (kind, key): value for key, value in record.items()
            if type(value) in (int, float) and key not in ("time", "step", "gpu")}


def main():
    trackers = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", choices=trackers, required=True)
    parser.add_argument("--project", default="convoy")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    try:
        package = importlib.import_module(options.to)
    except ImportError as missing:
        sys.exit("follow: pip install %s (%s)" % (options.to, missing))
    path, kept = (os.path.join(options.run, name) for name in
                  ("metrics.jsonl", "follow-%s.json" % options.to))
    if options.once and not os.path.exists(path):
        sys.exit("follow: %s: no such file" % path)
    state = {"id": None, "step": 0, "time": 0.0}
    if os.path.exists(kept):
        with open(kept) as f:
            state = json.load(f)
    tracker, step, unsaved, ended = None, 0, 0, False

    def save():
        tracker.flush()
        with open(kept + ".new", "w") as f:
            json.dump(state, f)
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
        if tracker is None:
            name = os.path.basename(os.path.abspath(options.run))
            tracker = trackers[options.to](package, options.project, name, config_of(options.run),
                                           state["id"])
            state["id"] = tracker.id
        step = record.get("step", step)
        if record["event"] == "diverged":  # a run that went back repeats steps with other numbers
            state["step"] = 0
        new = step > state["step"] if record["event"] == "step" else record["time"] > state["time"]
        values = {} if record.get("foreign") or record["event"] == "start" else numbers(record)
        if new and values:
            tracker.log(step, values, record["time"])
            state.update(step=max(step, state["step"]), time=record["time"])
            unsaved += 1
        ended = record["event"] == "done" and record["code"] != STOPPED
    if tracker:
        save()
        tracker.close()


main()
