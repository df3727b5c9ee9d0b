#!/usr/bin/env bash
# signals.sh - a run that is asked to stop saves a checkpoint and leaves with 75, whoever was asked;
# the next start ends it bit for bit as if nothing had been.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config

# send SIGNAL TARGET - to mpirun, to rank 0 or 1, or to the one process of a run without mpirun.
send()
{
    local target=$pid
    [[ $2 == [01] ]] && wait_for_ranks 2 && target=${processes[$2]}
    kill "-$1" "$target"
}

# stop RUN RANKS SIGNAL TARGET - starts, stops after a few steps, looks at what is left.
stop()
{
    local step
    slowly 5 train_in_background "$1" "$2" "${long[@]}" data.readers=1
    wait_for_step "$1" $((4 + $(field "$1" step step)))
    send "$3" "$4"
    wait_to_end 60
    cp "$SCRATCH/$1.out" "$out"
    ((code == 75)) || broken_run "$1: exit code $code, expected 75"
    sound_metrics "$1"
    expect_field "$1" "$1" "done" code 75
    step=$(field "$1" step step)
    [[ $(latest "$1") == */step-$(printf %08d "$step").safetensors ]] ||
        broken "$1: stopped after step $step, saved $(latest "$1")"
    expect_text "$1" 0 "convoy train: error:"
    expect_text "$1" 1 "stopped on request after step $step"
}

# stop_slow RUN SIGNAL FILES TEXT SECONDS KEY=VALUE... - on a storage where files whose path holds
# FILES take SLOW_FILES_MS, asks the run to stop when its records or config hold TEXT; it leaves
# within SECONDS.
stop_slow()
{
    local start tries
    SLOW_FILES_MATCH=$3 LD_PRELOAD=$PWD/build/slow_files.so train_in_background "$1" 1 "${@:6}"
    for ((tries = 0; tries < 1000; tries++)); do
        grep -qsF -- "$4" "$SCRATCH/$1/metrics.jsonl" "$SCRATCH/$1/config.yaml" && break
        sleep 0.02
    done
    wait_for_handlers "$pid"
    sleep 0.5
    start=$SECONDS
    kill "-$2" "$pid"
    wait_to_end 60
    cp "$SCRATCH/$1.out" "$out"
    ((code == 75)) || broken_run "$1: exit code $code, expected 75"
    ((SECONDS - start <= $5)) || broken "$1: took $((SECONDS - start)) s to leave"
    expect_text "$1" 0 "convoy train: error:"
}

# finish RUN RANKS - the same command again.
finish()
{
    local step
    step=$(field "$1" step step)
    train "$1" "$2" "${long[@]}"
    expect_field "$1" "$1" resume step "$step"
}

# evaluations RUN STEP - eval records of that step.
evaluations()
{
    grep -c "\"event\":\"eval\".*\"step\":$2," "$SCRATCH/$1/metrics.jsonl"
}

# Where an evaluation is due after every step, a stop comes before one;
# the next start makes up for it.
long=(train.epochs=3 checkpoint.every_epochs=0 "data.val=$SCRATCH/data/val" train.eval_every=0.001)
stop owed 1 USR1 alone
stopped_at=$(field owed step step)
[[ $(evaluations owed "$stopped_at") == 0 ]] ||
    broken "owed: evaluated after the stop was asked for"
finish owed 1
[[ $(evaluations owed "$stopped_at") == 1 ]] ||
    broken "owed: $(evaluations owed "$stopped_at") evaluations of step $stopped_at, expected 1"

# A terminal that is gone; one that was left on purpose.
stop hangup 1 HUP alone
settings nohup train.epochs=1
(trap '' HUP && exec "$CONVOY" train "${sets[@]}" > "$SCRATCH/nohup.out" 2>&1) &
pid=$!
wait_for_step nohup 2
kill -HUP "$pid"
wait_to_end 60
((code == 0)) || broken "nohup: exit code $code, expected 0"

# Before the first step there is nothing to save, however long the scan would take.
SLOW_FILES_MS=600000 stop_slow scan TERM /data/train run: 5
expect_field scan scan "done" code 75
[[ $(events scan step) == 0 ]] || broken "scan: took a step after the request"
cp -r "$SCRATCH/owed" "$SCRATCH/reading"
SLOW_FILES_MS=600000 stop_slow reading USR1 /step-0000 run: 5 "${long[@]}"
cmp "$SCRATCH/owed/metrics.jsonl" "$SCRATCH/reading/metrics.jsonl" > "$out" ||
    broken_run "reading: the record changed before the run went on"

# An evaluation may take long too; it is made up for.
make_data "$SCRATCH/more" 1 60
long=(train.epochs=1 "data.val=$SCRATCH/more/val")
SLOW_FILES_MS=200 stop_slow evaluated TERM /005 '"event":"epoch"' 12 \
    "${long[@]}" data.readers=1
expect_field evaluated evaluated "done" code 75
[[ $(events evaluated eval) == 0 ]] || broken "evaluated: to the end"
finish evaluated 1
train unevaluated 1 "${long[@]}"
same "stopped while it was evaluated" unevaluated evaluated
expect_field "evaluated" evaluated eval top1 "$(field unevaluated eval top1)"

long=(train.epochs=6 checkpoint.every_epochs=0 "data.val=$SCRATCH/data/val" train.eval_every=3)
stop alone 1 USR1 alone
if ! have_mpi; then
    finish alone 1
    train unbroken 1 "${long[@]}"
    same "stopped once" unbroken alone
    exit "$failed"
fi
train unbroken 2 "${long[@]}"
stop all_usr1 2 USR1 launcher
finish all_usr1 2
same "USR1 to mpirun" unbroken all_usr1

# Three stops in one run, each of another kind.
stop many 2 USR1 1
stop many 2 TERM 1
stop many 2 TERM 0
finish many 2
same "USR1 to rank 1, TERM to rank 1, TERM to rank 0" unbroken many
[[ $(events many resume) == 3 ]] || broken "three stops: $(events many resume) resume events"
[[ $(losses unbroken) == "$(losses many)" ]] || broken "three stops: the losses differ"
expect_field "three stops" many eval top1 "$(field unbroken eval top1)"

# Asked before the first step.
train_in_background early 2 "${long[@]}"
wait_for_ranks 2
# before that a signal ends them as any program
wait_for_handlers "${processes[@]}"
kill -USR1 "$pid"
wait_to_end 60
cp "$SCRATCH/early.out" "$out"
((code == 75)) || broken_run "early: exit code $code, expected 75"
finish early 2
same "stopped before the first step" unbroken early
exit "$failed"
