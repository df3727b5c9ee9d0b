#!/usr/bin/env bash
# watchdog.sh - a rank that hangs by itself, with no peer to miss it, ends with 76 and says in which step and phase; each phase has a limit of its own.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 13
make_config

# hang PHASE FILES KEY=VALUE... - where opening or reading files whose path holds FILES does not return, as on a file system whose server is gone.
hang()
{
    local phase=$1
    SLOW_FILES_MATCH=$2 SLOW_FILES_MS=600000 LD_PRELOAD=$PWD/build/slow_files.so train_in_background "$phase" 1 "watchdog.${phase}_s=2" "${@:3}"
    wait_to_end 60
    cp "$SCRATCH/$phase.out" "$out"
    ((code == 76)) || broken_run "$phase: exit code $code, expected 76"
    expect_one_error "$phase" "no sign of life within watchdog.${phase}_s"
    expect_text "$phase" some "rank 0 on $(hostname): no progress for 2."
    grep -q "\"phase\":\"$phase\"" "$SCRATCH/$phase/hang-0.json" || broken "$phase: hang-0.json does not name the phase"
    grep -q '"stack":\[.*"cmd_train+0x' "$SCRATCH/$phase/hang-0.json" || broken "$phase: hang-0.json does not say where the main thread was"
}

hang start /index/
hang step ring/0003.jp train.epochs=100 # which the first steps do not need
hang evaluation /0012.jp "data.val=$SCRATCH/data/val" # which the training set does not have
hang checkpoint /checkpoints/
expect_field "step" step "done" code 76
exit "$failed"
