#!/usr/bin/env bash
# bench_allreduce.sh - the columns of nccl-tests, read as scripts read those,
# and the health check's exit codes.
source tests/e2e/lib/common.sh
no_grace
ranks=1
have_mpi && ranks=2

# What a parser of nccl-tests takes for a row: size, count, type, redop, root, and twice time,
# algbw, busbw, #wrong.
row='^ *[0-9]+ +[0-9]+ +float +sum +-1( +N/A){4} +[0-9.]+ +[0-9.]+ +[0-9.]+ +0$'
expect "sizes" 0 run "$ranks" bench allreduce --min-bytes 8 --max-bytes 40K --steps 3 --warmup 1
[[ $(grep -cE "$row" "$out") == 14 ]] ||
    broken_run "sizes: not a row for each of 8, 16, ... 32768 and 40960 bytes"
[[ $(grep -E "$row" "$out" | awk '{ print $1 / $2 }' | sort -u) == 4 ]] ||
    broken_run "sizes: bytes and elements"
[[ $(grep -E "$row" "$out" | tail -n 1 | awk '{ print $1 }') == 40960 ]] ||
    broken_run "sizes: the largest is missing"
grep -E "$row" "$out" | awk -v n="$ranks" '
    $10 < 20 { next } # rounding hides what follows from so short a time
    { algbw = $1 / $10 * 1e-3; d = $12 - $11 * 2 * (n - 1) / n }
    $11 - algbw > 0.006 + 0.01 * algbw || algbw - $11 > 0.006 + 0.01 * algbw { bad = 1 }
    d > 0.02 || d < -0.02 { bad = 1 }
    END { exit bad }' || broken_run "sizes: bandwidths do not follow from time and size"
expect_text "sizes" 1 "# Out of bounds values : 0 OK"
grep -qE '^# Avg bus bandwidth    : [0-9.e+-]+$' "$out" || broken_run "sizes: no average"

expect "an odd size" 64 run 1 bench allreduce --max-bytes 26
expect "sizes that cross" 64 run 1 bench allreduce --min-bytes 1M --max-bytes 1K
expect_error "one rank has no bus" 64 "at least two ranks" 1 bench allreduce \
    --max-bytes 1K --min-busbw 1
((ranks == 1)) && exit "$failed"
expect "health" 0 run 2 bench allreduce --max-bytes 64K --steps 3 --min-busbw 0.000001
expect_error "no health" 69 "less than --min-busbw 1e+06" 2 bench allreduce --max-bytes 64K \
    --steps 3 --min-busbw 1e6
exit "$failed"
