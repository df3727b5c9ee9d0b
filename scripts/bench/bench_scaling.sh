#!/usr/bin/env bash
# bench_scaling.sh DIR [ROUNDS] - images/s of one process with N decode threads against the sum of N
# processes with one each, in turn, on the same N CPUs; then the median of their ratios,
# which should be 1 or more.
#
#   N=2 CONFIG=configs/resnet50-imagenet.yaml STEPS=60 BATCH=32 scripts/bench/bench_scaling.sh DIR 7
set -euo pipefail
cd "$(dirname "$0")/../.."
convoy=${CONVOY:-./convoy}
dir=${1:?usage: bench_scaling.sh DIR [ROUNDS]} rounds=${2:-7}
n=${N:-2} config=${CONFIG:-configs/resnet50-imagenet.yaml} steps=${STEPS:-60} batch=${BATCH:-32}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# loader THREADS STEPS SEED - prints images/s.
loader()
{
    taskset -c "0-$((n - 1))" "$convoy" bench loader "$config" --set "data.train=$dir" \
        --set data.index=off \
        --set "data.threads=$1" --set "train.batch_per_rank=$batch" \
        --set "train.seed=$3" --steps "$2" --warmup $(($2 / 4 + 1)) --input now |
        awk '$1 == "images_per_s" { print $2 }'
}

for ((round = 0; round < rounds; round++)); do
    together=$(loader "$n" "$steps" 1)
    for ((i = 1; i <= n; i++)); do loader 1 $((steps / n)) "$i" > "$scratch/$i" & done
    wait
    apart=$(cat "$scratch"/[0-9]* | awk '{ s += $1 } END { print s }')
    echo "$n threads $together images/s, $n processes $apart images/s"
    echo "$together $apart" >> "$scratch/all"
done
# Neighbours in time are compared, since a machine's speed may drift over the rounds.
awk '{ print $1 / $2, $1, $2 }' "$scratch/all" | sort -g |
    awk '{ line[NR] = $0 }
        END {
            split(line[int((NR + 1) / 2)], v)
            printf "median of %d rounds: threads over processes %.3f (%.1f and %.1f images/s)\n",
                   NR, v[1], v[2], v[3]
        }'
