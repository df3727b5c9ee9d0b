#!/usr/bin/env bash
# build_times.sh [ROUNDS] - how long a build takes: whole, and after one file changed. Prints a
# table for docs/laboratory/benchmarks.md; fails if a second make finds something to do.
#
# Builds a copy of the tree in a scratch folder, so that the build at hand stays as it is; variables
# of make come from the environment (CUDA=0, CUDA_ARCHS=80 ...). Each time is the best of ROUNDS (3)
# but for the whole build, which happens once.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
copy=$(mktemp -d "${TMPDIR:-/tmp}/convoy-build-XXXXXX")
trap 'rm -rf "$copy"' EXIT
find . -mindepth 1 -maxdepth 1 ! -name build ! -name .git ! -name convoy -exec cp -r {} "$copy" \;
cd "$copy"

# timed TARGET: builds it, prints seconds and how many commands compiled or linked
timed() {
    local start=$EPOCHREALTIME
    make --no-print-directory -j"$(nproc)" "$1" > log 2>&1 || { cat log >&2; exit 1; }
    awk -v from="$start" -v to="$EPOCHREALTIME" '
        /^(CC|CXX|NVCC) / { compiled++ }
        /^(LD|AR) / { linked++ }
        /^convoy with/ && !said++ { print > "what" }
        END { printf "%.1f %d %d\n", to - from, compiled, linked }' log
}

# row WHAT TIMES...
row() {
    printf '| %s | %s s | %s | %s |\n' "$1" "$2" "$3" "$4"
}

whole=$(timed build)
make -n build > log
if grep -v -e '^convoy with' -e ': Nothing to be done for' log | head -n 3 | grep .; then
    echo "build_times: a second make has something to do" >&2
    exit 1
fi
echo "$(cat what); $(nproc) cores"
echo
echo '| after a change of | time | files compiled | archives and programs |'
echo '|---|---|---|---|'
# shellcheck disable=SC2016,SC2086 # a row is three words
row 'everything (`make build`)' $whole
for file in base/status.h kernels/op.h trainer/engine/plan/schedule.c; do
    for ((round = 0; round < rounds; round++)); do
        touch "$file"
        timed all
    done > "times"
    # shellcheck disable=SC2046 # a row is three words
    row "\`$file\` (\`make\`)" $(sort -n times | head -n 1)
done
for ((round = 0; round < rounds; round++)); do timed all; done > "times"
# shellcheck disable=SC2046 # a row is three words
row 'nothing' $(sort -n times | head -n 1)
