#!/usr/bin/env bash
# watchdog.sh - a rank that hangs by itself, with no peer to miss it, ends with 76 and says in which step and phase.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 1
make_config

# A read that does not return, as on a file system whose server is gone. The file is one that the first steps do not need.
SLOW_FILES_MATCH=ring/0003.jp SLOW_FILES_MS=600000 LD_PRELOAD=$PWD/build/slow_files.so train_in_background hung 1 train.epochs=100 \
    watchdog.step_s=2
wait_to_end 60
cp "$SCRATCH/hung.out" "$out"
((code == 76)) || broken_run "exit code $code, expected 76"
expect_one_error "hung" "no sign of life within watchdog.step_s"
expect_text "hung" some "rank 0 on $(hostname): no progress for 2."
expect_field "hung" hung "done" code 76
grep -q '"phase":"step"' "$SCRATCH/hung/hang-0.json" || broken "hang-0.json does not name the phase"
exit "$failed"
