#!/usr/bin/env bash
# winograd.sh - device.winograd: which convolutions of a run are Winograd's is said, the losses are
# those of direct sums to rounding, and a run goes on bit for bit.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config
direct=(device.winograd=false)

calm=(train.max_steps=6 optimizer.lr=1e-4) # larger steps make roundings grow
train on 1 "${calm[@]}"
by="winograd 4x4"
grep -qE "run by: conv2d .*$by.*conv2d_bwd_data .*$by.*conv2d_bwd_weights .*$by" \
    "$SCRATCH/on/log.txt" || broken "log.txt does not say what Winograd computes"
train off 1 "${calm[@]}" "${direct[@]}"
! grep -q "winograd 4x4" "$SCRATCH/off/log.txt" || broken "device.winograd=false: Winograd computes"
follows "to rounding" on off 2e-5
far "another computation" on off 1e-8

constant=(schedule.name=constant)
train whole 1 "${constant[@]}" train.max_steps=6
train broken_off 1 "${constant[@]}" train.max_steps=3
train broken_off 1 "${constant[@]}" train.max_steps=6
expect_text "goes on" 1 "resumed from"
same "stopped and continued" whole broken_off

train broken_off 1 "${constant[@]}" train.max_steps=9 "${direct[@]}"
expect_text "another setting" 1 "device.winograd was true and is false"

expect "bench step" 0 run 1 bench step "$SCRATCH/small.yaml" --steps 1 --warmup 1 --nodes
grep -qE "^run by: conv2d .*[1-9][0-9]* winograd 4x4" "$out" ||
    broken_run "bench step --nodes does not say what Winograd computes"
exit "$failed"
