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

# refused WHAT RC TEXT COMMAND... - one line that holds TEXT
refused()
{
    expect "$1" "$2" "${@:4}"
    expect_text "$1" 1 "follow: error: $3"
    (($(wc -l < "$out") == 1)) || broken_run "$1: more than a line"
}

refused "no tracker" 78 "needs mlflow: pip install mlflow" \
    env PYTHONPATH= python3 -S scripts/follow.py "$run_dir" --to mlflow
refused "an option" 64 "unrecognized arguments: --all" follow --to wandb --all
refused "no run" 66 "$run_dir/metrics.jsonl: No such file" follow --to wandb --once

# What a run repeats is sent once, of every kind: continued at 10 and at 20, and after it diverged.
# What stands at a step for the first time is sent, late records at the last step.
record() { printf '{"event":"%s","time":%d%s}\n' "$1" $((++now)) "${2:-}"; }
now=0
part_1()
{
    record start
    record step ',"step":10,"loss":1'
    record spent ',"part":"train","step":10,"cost":1'
    record spent ',"part":"wait","step":10,"cost":2'
    record step ',"step":20,"loss":2'
    record on_save ',"step":10,"seconds":3'
    record eval ',"step":20,"top1":0.5'
    record eval ',"step":20,"top1":0.1,"foreign":true'
    record epoch ',"epoch":1,"seconds":9'
    record step ',"step":25,"loss":4'
    record "done" ',"code":75'
}
part_2()
{
    now=100
    record start
    record resume ',"step":10'
    record step ',"step":20,"loss":3'
    record gpu ',"step":20,"gpu":0,"power_w":5'
    record eval ',"step":20,"top1":0.7'
    record step ',"step":25,"loss":5'
    record eval ',"step":25,"top1":0.6'
    record start
    record resume ',"step":20'
    record step ',"step":25,"loss":6'
    record eval ',"step":25,"top1":0.8'
    record step ',"step":30,"loss":7'
    record diverged ',"step":31,"loss":null,"lr_factor":0.5'
    record step ',"step":30,"loss":8'
    record eval ',"step":30,"top1":0.8'
    record step ',"step":31,"loss":9'
    echo '[1]'
    echo '{"event":"step","time":"now"}'
    record "done" ',"code":0'
}
made=$SCRATCH/made
follow_made() { timeout 60 python3 scripts/follow.py "$made" --to wandb "$@"; }
# sent [FROM] - "STEP NAME VALUE..." a line, what was noted from line FROM on
sent() { tail -n "+${1:-1}" "$NOTES" | sed -n 's/.*"step": //p' | tr -d '",:{}'; }
mkdir "$made"
part_1 > "$made/metrics.jsonl"
refused "no configuration" 66 "$made/config.yaml: No such file" follow_made --once
printf 'model:\n  name: "resnet20"\n' > "$made/config.yaml"
expect "the first part" 0 follow_made --once
part_2 >> "$made/metrics.jsonl"
expect "the second part" 0 follow_made
expect_text "no records" 2 "not a record, left out"
expect_text "no records" 1 "follow: warning: $made/metrics.jsonl, line 28: "
cat > "$SCRATCH/sent" << 'END'
10 step/loss 1
10 spent/cost 1
10 spent/cost 2
20 step/loss 2
20 on_save/seconds 3
20 eval/top1 0.5
20 epoch/epoch 1 epoch/seconds 9
25 step/loss 4
25 done/code 75
25 eval/top1 0.6
30 step/loss 7
31 diverged/lr_factor 0.5
31 step/loss 9
31 done/code 0
END
sent | diff "$SCRATCH/sent" - > "$out" || broken_run "steps that are repeated: others are sent"
notes=$(wc -l < "$NOTES")
rm "$made/follow-wandb.json"
expect "both at once" 0 follow_made
sent $((notes + 1)) | diff "$SCRATCH/sent" - > "$out" || broken_run "both at once: others are sent"
for state in '{"id": "first", "li' '[]' '{"id": "first"}' '{"id": 1, "lines": 1}' ''; do
    echo "$state" > "$made/follow-wandb.json"
    refused "damaged: $state" 65 "$made/follow-wandb.json: damaged" follow_made
done
: > "$NOTES"

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
