#!/usr/bin/env bash
# slow_storage.sh - files that take 20 ms to open and 20 ms to read: the loader takes as many
# readers as that needs, says so, and makes the same batches; a number that is given is kept.
#
# alone: the rates of its loaders are compared
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 40 1
make_config

# slow KEY=VALUE... - convoy bench loader on slow files.
slow()
{
    settings bench "$@"
    SLOW_FILES_MATCH=.jp SLOW_FILES_MS=20 LD_PRELOAD=$PWD/build/slow_files.so \
        timeout 120 "$CONVOY" bench loader --verbose "${sets[@]}" --input now \
        --steps "${steps:-60}" --warmup "${steps:-30}"
}

# value NAME - of the last output.
value()
{
    awk -v name="$1" '$1 == name { print $2 }' "$out"
}

steps=8 expect "one reader" 0 slow data.readers=1
one=$(value images_per_s)
[[ $(value readers) == 1 ]] || broken_run "data.readers=1: $(value readers) readers"
expect_text "one reader" 0 "read ahead"
expect "as many readers as it takes" 0 slow
[[ $(value readers) -ge 8 ]] ||
    broken_run "no more than $(value readers) readers for files of 40 ms"
awk -v one="$one" -v many="$(value images_per_s)" 'BEGIN { exit !(one < 25 && many > 4 * one) }' ||
    broken_run "one reader $one images/s (at most 25 can be)," \
        "as many as it takes $(value images_per_s)"
expect_text "as many readers as it takes" some "threads read ahead (data.readers)"

train fast 1 train.max_steps=6
SLOW_FILES_MATCH=.jp SLOW_FILES_MS=20 LD_PRELOAD=$PWD/build/slow_files.so \
    train slow 1 train.max_steps=6
same "slow files" fast slow
exit "$failed"
