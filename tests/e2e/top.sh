#!/usr/bin/env bash
# top.sh - convoy top on a run that goes on, one that ended, one that was continued, and none;
# live in a terminal.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 2 1
make_config

train_in_background run 1 train.epochs=100000 schedule.name=constant
wait_for_step run 3
expect "running" 0 "$CONVOY" top "$SCRATCH/run" --once
expect_text "running" 1 "run         $SCRATCH/run: training"
expect_text "running" 1 "resnet20, 1 rank on"
expect_text "running" 1 "epochs  "
kill -USR1 "$pid"
wait_to_end 30
expect "stopped" 0 "$CONVOY" top "$SCRATCH/run" --once
expect_text "stopped" 1 "ended with code 75"
expect_text "stopped" 1 "checkpoint  step $(field run checkpoint step), "

# In a terminal it redraws until the run ends.
drawn=$'\033\\[H\033\\[J'
if command -v script > /dev/null; then
    train_in_background live 1 train.epochs=100000 schedule.name=constant
    wait_for_step live 2
    timeout 30 script -qec "$CONVOY top $SCRATCH/live --every 0.2" /dev/null > "$out" \
        2>&1 < /dev/null &
    watching=$!
    for ((tries = 0; tries < 500; tries++)); do
        (($(grep -c "$drawn" "$out") >= 3)) && break
        sleep 0.02
    done
    kill -USR1 "$pid"
    wait_to_end 30
    wait "$watching" || broken_run "live: exit code $?"
    (($(grep -c "$drawn" "$out") >= 3)) || broken_run "live: not drawn again"
    grep -q "ended with code 75" "$out" || broken_run "live: does not end with the run"
fi

# There it waits for a run, too.
if command -v script > /dev/null; then
    timeout 60 script -qec "$CONVOY top $SCRATCH/later --every 0.1" /dev/null > "$out" \
        2>&1 < /dev/null &
    watching=$!
    for ((tries = 0; tries < 500; tries++)); do
        grep -q "waiting for it to appear" "$out" && break
        sleep 0.02
    done
    settings later train.max_steps=1
    "$CONVOY" train "${sets[@]}" > "$SCRATCH/later.out" 2>&1
    wait "$watching" || broken_run "later: exit code $?"
    expect_text "later" 1 "$SCRATCH/later: waiting for it to appear"
    grep -q "later: done" "$out" || broken_run "later: does not end with the run"
fi

expect_error "no run" 64 "metrics.jsonl" 1 top "$SCRATCH/data"
expect_error "no number" 64 "--every soon" 1 top "$SCRATCH/run" --every soon
exit "$failed"
