#!/usr/bin/env bash
# fuzz.sh TARGET... - runs build/fuzz/TARGET (make fuzz builds them) one after another
# from the corpus in the tree.
#
# FUZZ_RUNS (default 1000000) inputs each; FUZZ_ARGS go to libFuzzer as they are. New inputs are
# kept in build/fuzz/corpus/TARGET, what fails in build/fuzz/crash-TARGET-*:
# `build/fuzz_replay TARGET FILE` runs it again. The last line is "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
source scripts/tally.sh
read -ra extra <<< "${FUZZ_ARGS:-}"
for target; do
    mkdir -p "build/fuzz/corpus/$target"
    log=build/fuzz/$target.log
    if "build/fuzz/$target" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
        -runs="${FUZZ_RUNS:-1000000}" -max_len=8192 -timeout=20 \
        -artifact_prefix="build/fuzz/crash-$target-" \
        -print_final_stats=1 "${extra[@]}" > "$log" 2>&1; then
        echo "ok   $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
        ((passed += 1))
    else
        echo "FAIL $target: see $log"
        grep -m 3 -E 'ERROR|SUMMARY|runtime error' "$log" | sed 's/^/  /'
        ((failed += 1))
    fi
done
tally_end
