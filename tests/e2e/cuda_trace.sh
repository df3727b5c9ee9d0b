#!/usr/bin/env bash
# cuda_trace.sh - log.trace_steps on devices: lanes of streams, copies of batches,
# sums by the host and by the devices.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config
lanes=(steps compute weights copy)
train plain 1 train.max_steps=9
train one 1 train.max_steps=9 log.trace_steps=3-4
same "traced or not" plain one
expect "one rank" 0 "$tools"/make_tracecheck "$SCRATCH/one/trace-0.json" "${lanes[@]}" decode-0
[[ $(grep '^step ' "$out" | tr '\n' ' ') == "step 3 step 4 " ]] ||
    broken_run "one rank: not steps 3 and 4"
have_mpi || exit "$failed"
train two 2 log.trace_steps=3-4 train.batch_per_rank=2
expect "two ranks, one device" 0 "$tools"/make_tracecheck "$SCRATCH/two/trace-1.json" \
    "${lanes[@]}" communication
emulated || exit "$failed" # the rest wants a GPU for each rank
export CONVOY_EMU_OWN_DEVICES=1
train own 2 log.trace_steps=3-4 train.batch_per_rank=2
expect "two devices" 0 "$tools"/make_tracecheck "$SCRATCH/own/trace-1.json" \
    "${lanes[@]}" communication
grep -q '"name":"sum of a bucket"' "$SCRATCH/own/trace-1.json" ||
    broken "two devices: no sum by the device"
exit "$failed"
