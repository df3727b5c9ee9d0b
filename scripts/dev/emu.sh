#!/usr/bin/env bash
# emu.sh - tests of the CUDA backend on a machine without a GPU: the build against tests/emu, its
# unit tests, every operation in three precisions against the reference, whole runs.
# The last line is "N passed, N failed, N skipped".
#
#   SAN=address,undefined   under these sanitizers, in a build of its own and without the whole runs
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
source scripts/tally.sh
san=${SAN:-}
build=build/emu${san:+/san-${san//,/-}} timeout_s=300
[[ -z $san ]] || timeout_s=1800
[[ -z $san ]] || export HWLOC_PLUGINS_PATH=none # its PCI plugin does not give back what it takes

stage() {
    echo "== $1"
    tally_run "$@"
}

if stage build make --no-print-directory -j"$(nproc)" EMU=1 SAN="$san" build; then
    stage unit "$build/unit" --filter=cuda --timeout=$timeout_s
    stage emulator "$build/unit" --filter=emu --timeout=$timeout_s
    for precision in fp32 bf16 fp16; do
        stage "operations in $precision" "$build/ops" --backend="cuda:$precision"
    done
    for precision in fp32 bf16 fp16; do
        stage "cuDNN's batch norms in $precision" "$build/ops" --backend="cuda:$precision" \
            --op=batchnorm --cudnn
    done
    for precision in bf16 fp16; do
        stage "cuDNN's attention in $precision" "$build/ops" --backend="cuda:$precision" \
            --op=attention --cudnn
    done
    [[ -n $san ]] || stage runs scripts/e2e.sh tests/e2e/cuda_*.sh
fi
tally_end
