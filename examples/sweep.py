#!/usr/bin/env python3
"""Searches for good settings: Optuna proposes (pip install optuna), Convoy trains.

    sweep.py FOLDER CONFIG KEY=VALUES... [--trials N] [--random SEED] [--command "convoy train"]
    sweep.py runs/sweep CONFIG optimizer.lr=0.01..1 train.label_smoothing=0,0.1 --trials 20

VALUES are a list, 0,0.1, or a range, 0.01..1, searched by its logarithm. Without --trials all of a
grid of lists is tried. With --random values are drawn at random, else Optuna's TPE chooses. Runs
with little hope are stopped early. Each trial is a run folder in FOLDER, scored by top-1 or mAP.
The same command again continues, also in the middle of a run; several at once, such as the tasks of
a Slurm array, share the work. At the end FOLDER/report.html compares the runs."""
import argparse
import fcntl
import glob
import json
import os
import subprocess

import optuna
from optuna.storages.journal import JournalFileBackend


def run_of(options, params):
    words = ["%s=%s" % (key, value if isinstance(value, str) else "%.4g" % value)
             for key, value in params.items()]
    return words, os.path.join(options.folder, ",".join(words).replace("/", "_"))


def lock_of(run):
    """Held while a run trains; a trial whose lock is free was cut off. None: it is not free."""
    lock = open(run + ".lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return lock


def score_of(record):
    return record["map" if "map" in record else "top1"]


def suggest(trial, word):
    key, values = word.split("=", 1)
    if ".." in values:
        low, high = map(float, values.split(".."))
        trial.suggest_float(key, low, high, log=True)
    else:
        trial.suggest_categorical(key, values.split(","))


def train(trial, options):
    for word in options.keys:
        suggest(trial, word)
    settings, run = run_of(options, trial.params)
    lock = lock_of(run)
    if not lock:  # another process trains just this
        raise optuna.TrialPruned()
    words = options.command + [options.config, "run.dir=" + run, "log.format=json"] + settings
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    pruned = False
    for record in map(json.loads, process.stdout):
        if record["event"] == "eval" and not pruned:
            trial.report(score_of(record), record["step"])
            pruned = trial.should_prune()
            if pruned:
                subprocess.run([options.command[0], "stop", run])
    if process.wait() not in (0, 75):
        raise RuntimeError("%s ended with %d" % (run, process.returncode))
    if pruned:
        raise optuna.TrialPruned()
    with open(os.path.join(run, "metrics.jsonl")) as lines:
        return max(score_of(record) for record in map(json.loads, lines)
                   if record["event"] == "eval" and not record.get("foreign"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("config")
    parser.add_argument("keys", nargs="+", metavar="KEY=VALUES")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--random", type=int, metavar="SEED")
    parser.add_argument("--command", default="convoy train", type=str.split)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    grid = {key: values.split(",") for key, values in (word.split("=", 1) for word in options.keys)}
    if options.trials is None and any(".." in word for word in options.keys):
        parser.error("a range requires --trials: a grid has lists alone")
    samplers = optuna.samplers
    study = optuna.create_study(
        study_name="sweep", load_if_exists=True, direction="maximize",
        storage=optuna.storages.JournalStorage(JournalFileBackend(options.folder + "/trials.log")),
        sampler=samplers.GridSampler(grid) if options.trials is None else
        samplers.RandomSampler(options.random) if options.random is not None else
        samplers.TPESampler(), pruner=optuna.pruners.MedianPruner())
    states = optuna.trial.TrialState
    for trial in study.get_trials(states=[states.RUNNING]):
        if lock_of(run_of(options, trial.params)[1]):
            study.tell(trial.number, state=states.FAIL)
    trials = study.get_trials()
    going = [trial.params for trial in trials if trial.state != states.FAIL]
    for trial in trials:  # what was cut off is taken up again: its run folder continues
        if trial.state == states.FAIL and trial.params not in going:
            study.enqueue_trial(trial.params)
            going.append(trial.params)
    left = options.trials and options.trials - len(
        study.get_trials(states=[states.COMPLETE, states.PRUNED]))
    study.optimize(lambda trial: train(trial, options), n_trials=left)
    print("best: %.4f with %s" % (study.best_value, study.best_params))
    subprocess.run([options.command[0], "report", *sorted(glob.glob(options.folder + "/*=*/")),
                    "--out", options.folder + "/report.html"], check=True)


if __name__ == "__main__":
    main()
