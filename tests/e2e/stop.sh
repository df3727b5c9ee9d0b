#!/usr/bin/env bash
# stop.sh - convoy stop RUN and convoy drain --run RUN: the run in that folder saves a checkpoint
# and leaves, and no other.
source tests/e2e/lib/common.sh
source tests/e2e/lib/hosts.sh
make_data "$SCRATCH/data" 12 1
make_config
# A program of its own: convoy drain finds ranks by it.
cp "$CONVOY" "$SCRATCH/convoy" && CONVOY=$SCRATCH/convoy
endless=(train.epochs=100000 schedule.name=constant checkpoint.every_epochs=0)

# left RUN - $pid has ended with 75 behind a checkpoint, and of the request nothing is left.
left()
{
    wait_to_end 30
    cp "$SCRATCH/$1.out" "$out"
    ((code == 75)) || broken_run "$1: exit code $code, expected 75"
    expect_text "$1" some "checkpoint saved"
    [[ $(latest "$1") == */step-$(printf %08d "$(field "$1" step step)").safetensors ]] ||
        broken "$1: its newest checkpoint is not that of its last step"
    [[ -z $(find "$SCRATCH/$1" -name '*stop*') ]] ||
        broken "$1: left behind: $(find "$SCRATCH/$1" -name '*stop*')"
}

ranks=2
have_mpi || ranks=1
train_in_background other "$ranks" "${endless[@]}"
other=$pid
train_in_background asked "$ranks" "${endless[@]}"
wait_for_step asked 3
expect "stop" 0 timeout 60 "$CONVOY" stop "$SCRATCH/asked"
expect_text "stop" 1 "$SCRATCH/asked: the run has ended"
left asked

# By another path, and to ranks of this run alone.
train_in_background drained "$ranks" "${endless[@]}"
wait_for_step drained 3
ln -s drained "$SCRATCH/link"
expect "drain" 0 timeout 60 "$CONVOY" drain --run "$SCRATCH/link"
expect_text "drain" 1 "asked $ranks rank"
left drained
pid=$other
wait_for_progress other 3
kill -0 "$other" 2> /dev/null || broken "other: has ended, too"
expect "ask only" 0 timeout 60 "$CONVOY" stop "$SCRATCH/other" --wait 0
left other

# What is not there; what is no run; a request that is left from a run that was killed.
expect "twice" 0 timeout 60 "$CONVOY" stop "$SCRATCH/asked"
expect_text "twice" 1 "the run was not running"
expect "twice, not waiting long" 0 timeout 60 "$CONVOY" stop "$SCRATCH/asked" --wait 1
expect_text "twice, not waiting long" 1 "the run was not running"
expect_error "no run" 64 "$SCRATCH/data: not a run folder" 1 stop "$SCRATCH/data"
expect_error "no folder" 64 "no such run folder" 1 drain --run "$SCRATCH/nothing"
touch "$SCRATCH/asked/stop" "$SCRATCH/asked/stop.seen"
train asked "$ranks" "${endless[@]}" "train.max_steps=$(($(field asked step step) + 3))"

# While it looks for its data, which takes for ever.
SLOW_FILES_MATCH=/data/train SLOW_FILES_MS=600000 LD_PRELOAD=$PWD/build/slow_files.so \
    train_in_background scan 1
until [[ -s $SCRATCH/scan/config.yaml ]]; do sleep 0.05; done
sleep 0.5
expect "stop of a scan" 0 timeout 60 "$CONVOY" stop "$SCRATCH/scan"
wait_to_end 10
((code == 75)) || broken "scan: exit code $code, expected 75"

# While it begins: what it removes then, since it might be of a run that was killed, comes again.
mkdir "$SCRATCH/begins"
(
    flock 9
    until [[ -e $SCRATCH/begins/stop ]]; do sleep 0.02; done
    rm "$SCRATCH/begins/stop"
    timeout 20 bash -c "until [[ -e $SCRATCH/begins/stop ]]; do sleep 0.02; done" &&
        touch "$SCRATCH/heard"
) 9> "$SCRATCH/begins/metrics.jsonl" &
until [[ -e $SCRATCH/begins/metrics.jsonl ]]; do sleep 0.02; done
sleep 0.2
expect "stop of a run that begins" 0 timeout 60 "$CONVOY" stop "$SCRATCH/begins"
[[ -e $SCRATCH/heard ]] || broken "begins: the run was not asked again"

# A supervisor that comes while it waits is asked instead, or it would start the run again.
mkdir "$SCRATCH/comes"
: > "$SCRATCH/comes/metrics.jsonl"
(
    timeout 20 bash -c "until [[ -e $SCRATCH/comes/stop ]]; do sleep 0.02; done"
    exec 9> "$SCRATCH/comes/launch.lock"
    flock 9
    echo "$(hostname) $BASHPID $(date +%s)" >&9
    timeout 20 bash -c "until [[ -e $SCRATCH/comes/launch.stop ]]; do sleep 0.02; done" &&
        rm "$SCRATCH/comes/launch.stop" && touch "$SCRATCH/supervised"
) &
expect "stop before its supervisor" 0 timeout 60 "$CONVOY" stop "$SCRATCH/comes"
[[ -e $SCRATCH/supervised ]] || broken "comes: the supervisor was not asked"
[[ ! -e $SCRATCH/comes/stop ]] || broken "comes: the request to the run is left behind"

# Under a supervisor it is not started again.
if have_mpi; then
    make_hosts h1
    launch_in_background -- launched "${endless[@]}" checkpoint.every_steps=10
    wait_for_starts launched 1
    wait_for_step launched 3
    expect "stop of a launch" 0 timeout 60 "$CONVOY" stop "$SCRATCH/launched"
    left launched
    [[ $(launch_events launched exit reason) == "asked to stop" ]] ||
        broken "launched: ends are '$(launch_events launched exit reason)'"
    expect_nothing_runs launched
fi
exit "$failed"
