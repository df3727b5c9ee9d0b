#!/usr/bin/env bash
# emu.sh - tests of the CUDA backend on a machine without a GPU: the build against tests/emu, its unit tests, every operation in three
# precisions against the reference, whole runs. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

# stage TITLE COMMAND...: adds the command's last "N passed, N failed".
stage() {
    local title=$1 status p f
    shift
    echo "== $title"
    "$@" 2>&1 | tee "$log" | sed -u -E "s/^([0-9]+ passed, [0-9]+ failed)\$/$title: \\1/"
    status=${PIPESTATUS[0]}
    read -r p f < <(awk '/^[0-9]+ passed, [0-9]+ failed$/ { p = $1; f = $3 } END { print p + 0, f + 0 }' "$log")
    if ((status != 0 && f == 0)); then
        echo "$title: ended with status $status"
        f=1
    fi
    ((passed += p, failed += f))
}

stage build make --no-print-directory -j"$(nproc)" EMU=1 build
if ((failed == 0)); then
    stage unit build/emu/unit --filter=cuda --timeout=300
    stage emulator build/emu/unit --filter=emu --timeout=300
    for precision in fp32 bf16 fp16; do stage "operations in $precision" build/emu/check --backend="cuda:$precision"; done
    for precision in fp32 bf16 fp16; do
        stage "cuDNN's batch norms in $precision" build/emu/check --backend="cuda:$precision" --op=batchnorm --cudnn-norms
    done
    stage runs scripts/e2e.sh tests/e2e/cuda_*.sh
fi
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
