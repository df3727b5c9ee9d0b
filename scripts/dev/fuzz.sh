#!/usr/bin/env bash
# fuzz.sh TARGET... - runs build/fuzz/TARGET (make fuzz builds them) from the corpus in the tree, as
# many at a time as there are cores.
#
# FUZZ_RUNS (default 1000000) inputs each; FUZZ_ARGS go to libFuzzer as they are. New inputs are
# kept in build/fuzz/corpus/TARGET, what fails in build/fuzz/crash-TARGET-*:
# `build/fuzz_replay TARGET FILE` runs it again. The last line is "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
source scripts/tally.sh
read -ra extra <<< "${FUZZ_ARGS:-}"

fuzz() { # TARGET
    local log=build/fuzz/$1.log
    mkdir -p "build/fuzz/corpus/$1"
    if "build/fuzz/$1" "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" \
        -runs="${FUZZ_RUNS:-1000000}" -max_len=8192 -timeout=20 \
        -artifact_prefix="build/fuzz/crash-$1-" \
        -print_final_stats=1 "${extra[@]}" > "$log" 2>&1; then
        echo "ok   $1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    else
        echo "FAIL $1: see $log"
        grep -m 3 -E 'ERROR|SUMMARY|runtime error' "$log" | sed 's/^/  /'
        return 1
    fi
}

tally_each "$(nproc)" fuzz "$@"
tally_end
