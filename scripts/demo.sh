#!/usr/bin/env bash
# demo.sh - what `make demo` runs behind setup and build: makes a small ImageFolder of real JPEG
# files, trains on it with two ranks, says what came out.
# Everything lands in demo-data/ and runs/demo/.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -e demo-data/.complete ]; then
    rm -rf demo-data
    build/make_shapes demo-data
    touch demo-data/.complete
fi

# A new demo starts afresh; training itself would continue the run folder.
rm -rf runs/demo

# Open MPI refuses root, and more ranks than cores, unless told otherwise.
flags=(--oversubscribe)
if [ "$(id -u)" = 0 ]; then flags+=(--allow-run-as-root); fi
if [[ $(mpirun --version 2>&1) == *'Open MPI'* ]] &&
    ./convoy --version | grep '^MPI: Open MPI (lib' > /dev/null; then
    mpirun -n 2 "${flags[@]}" ./convoy train configs/demo.yaml
else
    echo "demo: no Open MPI, one rank"
    ./convoy train configs/demo.yaml
fi

top1=$(awk -F'"top1":' '/"event":"eval"/ { split($2, v, /[,}]/); last = v[1] } END { print last }' \
    runs/demo/metrics.jsonl)
echo "demo: val top-1 $(awk -v t="$top1" 'BEGIN { printf "%.1f", 100 * t }') %," \
    "run folder runs/demo"
awk -v t="$top1" 'BEGIN { exit !(t >= 0.9) }' || {
    echo "demo: expected at least 90 %" >&2
    exit 1
}
