#!/usr/bin/env bash
# emu.sh - tests of the CUDA backend on a machine without a GPU: the build against tests/emu, its
# unit tests, every operation in three precisions against the reference, whole runs.
# The last line is "N passed, N failed".
#
#   SAN=address,undefined   under these sanitizers, in a build of its own and without the whole runs
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
san=${SAN:-}
build=build/emu${san:+/san-${san//,/-}} timeout_s=300
[[ -z $san ]] || timeout_s=1800

# stage TITLE COMMAND...: adds the command's last "N passed, N failed".
stage() {
    local title=$1 status p f
    shift
    echo "== $title"
    "$@" 2>&1 | tee "$log" | sed -u -E "s/^([0-9]+ passed, [0-9]+ failed)\$/$title: \\1/"
    status=${PIPESTATUS[0]}
    read -r p f < <(awk \
        '/^[0-9]+ passed, [0-9]+ failed$/ { p = $1; f = $3 } END { print p + 0, f + 0 }' "$log")
    if ((status != 0 && f == 0)); then
        echo "$title: ended with status $status"
        f=1
    fi
    ((passed += p, failed += f))
}

stage build make --no-print-directory -j"$(nproc)" EMU=1 SAN="$san" build
if ((failed == 0)); then
    stage unit "$build/unit" --filter=cuda --timeout=$timeout_s
    stage emulator "$build/unit" --filter=emu --timeout=$timeout_s
    for precision in fp32 bf16 fp16; do
        stage "operations in $precision" "$build/check" --backend="cuda:$precision"
    done
    for precision in fp32 bf16 fp16; do
        stage "cuDNN's batch norms in $precision" "$build/check" --backend="cuda:$precision" \
            --op=batchnorm --cudnn-norms
    done
    [[ -n $san ]] || stage runs scripts/e2e.sh tests/e2e/cuda_*.sh
fi
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
