#!/usr/bin/env bash
# follow.sh - scripts/follow.py: every number of a run arrives once and in order, while it trains
# and over a stop and a continuation. A stand-in for wandb notes what it is told; mlflow and trackio
# are asked for what they have kept where Python has them.
source tests/e2e/lib/common.sh
if ! command -v python3 > /dev/null; then
    echo "not tested: follow.py: no python3"
    exit 77
fi
make_data "$SCRATCH/data" 8 2
make_config
run_dir=$SCRATCH/run
train()
{
    run 1 train "$SCRATCH/small.yaml" "run.dir=$run_dir" "data.val=$SCRATCH/data/val" \
        checkpoint.every_steps=3 train.batch_per_rank=8 "$@"
}
mkdir "$SCRATCH/fake"
cat > "$SCRATCH/fake/wandb.py" << 'END'
import json, os
notes = open(os.environ["NOTES"], "a")
class Run:
    def __init__(self, given):
        self.id = given["id"] or "first"
    def log(self, values, step):
        print(json.dumps({"id": self.id, "step": step, **values}), file=notes)
    def finish(self):
        notes.close()
def init(**given):
    print(json.dumps({"init": given["config"], "id": given["id"]}), file=notes)
    return Run(given)
END
export NOTES=$SCRATCH/notes PYTHONPATH=$SCRATCH/fake
follow() { timeout 60 python3 scripts/follow.py "$run_dir" "$@"; }
# what FILE EVENT - step and loss of the run's records, each step once
wanted()
{
    sed -n 's/.*"event":"step".*"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1" | sort -nu
}
noted() { sed -n 's/.*"step": \([0-9]*\), .*"step\/loss": \([^,]*\),.*/\1 \2/p' "$NOTES"; }

expect "no tracker" 1 env PYTHONPATH= python3 -S scripts/follow.py "$run_dir" --to mlflow
expect_text "no tracker" 1 'follow: pip install mlflow'
expect "no run" 1 follow --to wandb --once
expect_text "no run" 1 "$run_dir/metrics.jsonl: no such file"

# It waits for the run, follows it past a stop, and ends when the run does.
follow --to wandb > "$SCRATCH/follower" 2>&1 &
follower=$!
expect "train" 0 train train.max_steps=5 schedule.decay_steps=10
wait $follower || broken "the follower ended with $?: $(cat "$SCRATCH/follower")"
diff <(wanted "$run_dir/metrics.jsonl") <(noted) > "$out" || broken_run "a live run: other steps"
grep -q '"eval/top1"' "$NOTES" || broken "no evaluation"
grep -q '"init": {.*"model.name": "resnet20"' "$NOTES" || broken "no configuration"
rm "$run_dir"/checkpoints/*00005*
expect "continue" 0 train train.max_steps=8 schedule.decay_steps=10
(($(grep -c '"event":"step".*"step":5,' "$run_dir/metrics.jsonl") == 2)) ||
    broken "no step came twice"
expect "follow again" 0 follow --to wandb
diff <(wanted "$run_dir/metrics.jsonl") <(noted) > "$out" || broken_run "after a stop: other steps"
(($(grep -c '"id": "first", "step"' "$NOTES") > 8)) || broken "not one run of the tracker"
(($(grep -c '"id": "first"}' "$NOTES") == 1)) || broken "the second follower began another run"
before=$(wc -l < "$NOTES")
expect "nothing new" 0 follow --to wandb --once
(($(wc -l < "$NOTES") == before + 1)) || broken "sent twice"

# Those that are there.
export PYTHONPATH= MLFLOW_TRACKING_URI=sqlite:///$SCRATCH/mlflow.db TRACKIO_DIR=$SCRATCH/trackio
for tracker in mlflow trackio; do
    if ! python3 -c "import $tracker" 2> /dev/null; then
        echo "not tested: $tracker: python3 has no such package"
        continue
    fi
    expect "$tracker" 0 follow --to $tracker
    expect "$tracker again" 0 follow --to $tracker --once
    case $tracker in
    mlflow) python3 - << 'END' ;;
import mlflow
client = mlflow.MlflowClient()
runs = client.search_runs([client.get_experiment_by_name("convoy").experiment_id])
for metric in client.get_metric_history(runs[0].info.run_id, "step/loss"):
    print(metric.step, metric.value)
assert len(runs) == 1 and runs[0].data.params["model.name"] == "resnet20"
END
    trackio) python3 - << 'END' ;;
import glob, json, os, sqlite3
for path in glob.glob(os.environ["TRACKIO_DIR"] + "/*.db"):
    rows = sqlite3.connect(path).execute("SELECT step, metrics FROM metrics ORDER BY id")
    for step, metrics in rows:
        metrics = json.loads(metrics)
        if "step/loss" in metrics:
            print(step, metrics["step/loss"])
END
    esac > "$out" 2>&1
    python3 -c 'import sys
a, b = ([tuple(map(float, line.split())) for line in open(name)] for name in sys.argv[1:])
sys.exit(a != b)' <(wanted "$run_dir/metrics.jsonl") "$out" || broken_run "$tracker has other steps"
done
exit "$failed"
