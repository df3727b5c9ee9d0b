#!/usr/bin/env bash
# bench_allreduce.sh - the columns of nccl-tests, read as scripts read those,
# and the health check's exit codes.
source tests/e2e/lib/common.sh
no_grace
ranks=1
have_mpi && ranks=2

# What a parser of nccl-tests takes for a row: size, count, type, redop, root, and twice time,
# algbw, busbw, #wrong: out of place, where there are several ranks, and in place.
group='( +[0-9.]+ +[0-9.]+ +[0-9.]+ +0)'
((ranks == 1)) && first='( +N/A){4}' || first=$group
row="^ *[0-9]+ +[0-9]+ +float +sum +-1$first$group\$"
expect "sizes" 0 run "$ranks" bench allreduce --min-bytes 8 --max-bytes 40K --steps 3 --warmup 1
[[ $(grep -cE "$row" "$out") == 14 ]] ||
    broken_run "sizes: not a row for each of 8, 16, ... 32768 and 40960 bytes"
[[ $(grep -E "$row" "$out" | awk '{ print $1 / $2 }' | sort -u) == 4 ]] ||
    broken_run "sizes: bytes and elements"
[[ $(grep -E "$row" "$out" | tail -n 1 | awk '{ print $1 }') == 40960 ]] ||
    broken_run "sizes: the largest is missing"
grep -E "$row" "$out" | awk -v n="$ranks" '
    function follows(time, got, bus,   algbw, d) {
        if (time == "N/A" || time < 20) return 1 # rounding hides it in so short a time
        algbw = $1 / time * 1e-3; d = bus - got * 2 * (n - 1) / n
        return got - algbw <= 0.006 + 0.01 * algbw && algbw - got <= 0.006 + 0.01 * algbw &&
            d <= 0.02 && d >= -0.02
    }
    !follows($6, $7, $8) || !follows($10, $11, $12) { bad = 1 }
    END { exit bad }' || broken_run "sizes: bandwidths do not follow from time and size"
expect_text "sizes" 1 "# Out of bounds values : 0 OK"
grep -qE '^# Avg bus bandwidth    : [0-9.e+-]+$' "$out" || broken_run "sizes: no average"

# As nccl-tests is called, and what it prints before the table.
expect "names of nccl-tests" 0 run "$ranks" bench allreduce -b 1K -e 16K -f 4 -n 2 -w 1 -c 0
expect_text "head" 1 "# nThread 1 nGpus 1 minBytes 1024 maxBytes 16384 step: 4(factor) warmup \
iters: 1 iters: 2 agg iters: 1 validation: 0 graph: 0"
grep -qx "# Using devices" "$out" || broken_run "devices: no line above them"
[[ $(grep -cE '^#  Rank +[0-9]+ Group +0 Pid +[0-9]+ on +[^ ]+ device +[0-9]+ \[host memory\] ' \
    "$out") == "$ranks" ]] || broken_run "not a line for each rank's device"
awk '$3 == "float" { print $1, $NF }' "$out" | xargs > "$SCRATCH/sizes"
[[ $(< "$SCRATCH/sizes") == "1024 N/A 4096 N/A 16384 N/A" ]] ||
    broken_run "other sizes, or checked ones"
expect_error "neither checked nor not" 64 "--check 2: must be a whole number from 0 to 1" 1 \
    bench allreduce -c 2
expect_error "no factor" 64 "--factor" 1 bench allreduce -f 1
expect_error "-b elsewhere" 64 "unknown option -b" 1 bench step -b 1
expect "an odd size" 64 run 1 bench allreduce --max-bytes 26
expect "sizes that cross" 64 run 1 bench allreduce --min-bytes 1M --max-bytes 1K
expect_error "one rank has no bus" 64 "at least two ranks" 1 bench allreduce \
    --max-bytes 1K --min-busbw 1

# The sums of a step of a network. 32 images of 64 a second: half a second of computation, in which
# all buckets but the last are begun.
value() { awk -v name="$1" '$1 == name { print $2 }' "$out"; }
like=(bench allreduce --like resnet20 --steps 3 --warmup 1 data.image_size=32 model.classes=10
    comm.bucket_mb=0.3)
fabrics=configs/fabrics/p4d.24xlarge-efa.json,configs/fabrics/big-basin.json
expect "like" 0 run "$ranks" "${like[@]}" --rate 64 --predict "$fabrics"
expect_text "like" 1 "gradients 269722"
expect_text "like" 1 "buckets 4"
expect_text "like" 1 "compute_ms 500.000"
# nodes, ranks, buckets, sums, exposed, step, images/s, efficiency: of 1, 2, ... 64 nodes, twice
rows=$(grep -cE '^ +[0-9]+ +[0-9]+ +4( +[0-9.]+){5}$' "$out")
[[ $rows == 14 ]] || broken_run "like: $rows rows of predictions"
awk -v n="$ranks" '
    { v[$1] = $2 }
    function far(a, b, slack) { return a - b > slack || b - a > slack }
    END {
        bad = v["step_ms"] < 500 || far(v["exposed_ms"], v["step_ms"] - 500, 0.01)
        bad = bad || far(v["efficiency"], 500 / v["step_ms"], 0.001)
        bad = bad || far(v["images_per_s"], n * 32000 / v["step_ms"], 0.1)
        exit bad || (n > 1 && v["overlap"] < 0.5)
    }' "$out" || broken_run "like: the figures do not follow from each other, or nothing overlaps"
expect "like, no time to hide in" 0 run "$ranks" "${like[@]}" --rate 1e9
(($(value step_ms | cut -d. -f1) < 500)) || broken_run "like: computes though it may not"
# text: 32 samples of 512 tokens
expect "like text" 0 run 1 bench allreduce --like roberta_base --rate 163840 --steps 1 --warmup 0
expect_text "like text" 1 "gradients 124696665"
expect_text "like text" 1 "compute_ms 100.000"
expect_text "like text" 1 "tokens_per_s"
expect_error "an unknown network" 64 "unknown network resnet5 (did you mean" 1 bench allreduce \
    --like resnet5 --rate 1
expect_error "no rate" 64 "--like requires --rate" 1 bench allreduce --like resnet20
expect_error "no number" 64 "--rate fast: must be a number" 1 bench allreduce \
    --like resnet20 --rate fast
expect_error "no fabric" 65 "nowhere.json" 1 "${like[@]}" --rate 1e9 --predict nowhere.json
((ranks == 1)) && exit "$failed"
expect "health" 0 run 2 bench allreduce --max-bytes 64K --steps 3 --min-busbw 0.000001
expect_error "no health" 69 "less than --min-busbw 1e+06" 2 bench allreduce --max-bytes 64K \
    --steps 3 --min-busbw 1e6
exit "$failed"
