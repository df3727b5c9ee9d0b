#!/usr/bin/env bash
# bench_slow_storage.sh DIR [ROUNDS] - images/s of the training input with 0, 5 and 20 ms before
# every open and read of the files of DIR, an ImageFolder of .JPEG or .jpg files, in turn; then
# medians of the ratios to the rate without delay in the same round.
#
#   THREADS=2 SIZE=224 STEPS=60 WARMUP=20 BATCH=32 scripts/bench/bench_slow_storage.sh DIR 5
set -euo pipefail
cd "$(dirname "$0")/../.."
convoy=${CONVOY:-./convoy}
dir=${1:?usage: bench_slow_storage.sh DIR [ROUNDS]} rounds=${2:-5}
threads=${THREADS:-2} size=${SIZE:-224} steps=${STEPS:-60} warmup=${WARMUP:-20} batch=${BATCH:-32}
results=$(mktemp)
trap 'rm -f "$results"' EXIT

for ((round = 0; round < rounds; round++)); do
    for ms in 0 5 20; do
        out=$(SLOW_FILES_MATCH=.jp SLOW_FILES_MS=$ms LD_PRELOAD=$PWD/build/slow_files.so \
            "$convoy" bench loader --set "data.train=$dir" --set "data.image_size=$size" \
            --set data.index=off \
            --set "data.threads=$threads" --set "train.batch_per_rank=$batch" \
            --steps "$steps" --warmup "$warmup" --input now 2>&1)
        rate=$(awk '$1 == "images_per_s" { print $2 }' <<< "$out")
        readers=$(awk '$1 == "readers" { print $2 }' <<< "$out")
        starved=$(awk '$1 == "now_starved_percent" { print $2 }' <<< "$out")
        echo "$ms ms: $rate images/s, $readers readers," \
            "decode threads without bytes $starved % of the time"
        echo "$ms $rate" >> "$results"
    done
done
# Neighbours in time are compared, since a machine's speed may drift over the rounds.
awk '
    { n[$1]++; rate[$1, n[$1]] = $2 }
    function median(of, rounds,   i, j, t) {
        for (i = 1; i <= rounds; i++) for (j = i + 1; j <= rounds; j++)
            if (of[j] < of[i]) { t = of[i]; of[i] = of[j]; of[j] = t }
        return of[int((rounds + 1) / 2)]
    }
    function share(ms,   i, of) {
        for (i = 1; i <= n[ms]; i++) of[i] = rate[ms, i] / rate[0, i]
        return median(of, n[ms])
    }
    END {
        for (i = 1; i <= n[0]; i++) base[i] = rate[0, i]
        printf "medians of %d rounds: 0 ms %.1f images/s; 5 ms %.3f of its round, 20 ms %.3f\n",
               n[0], median(base, n[0]), share(5), share(20)
    }
' "$results"
