#!/usr/bin/env bash
# ptxas.sh - what ptxas says of every kernel under kernels/cuda, on every architecture that is built for: none may spill registers or keep
# arrays in local memory. One line per finding; the last line is "N passed, N failed", where each kernel on each architecture counts once.
#
# Called by `make ptxas`, which sets NVCC, NVCC_FLAGS, CUDA_ARCHS and CUDA_MISSING. --table lists registers and shared memory of all kernels.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
if [[ -n ${CUDA_MISSING:-} ]]; then
    echo "ptxas: skipped: not found: $CUDA_MISSING"
    echo "0 passed, 0 failed"
    exit 0
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0
gencode=()
for arch in $CUDA_ARCHS; do gencode+=(-gencode "arch=compute_$arch,code=sm_$arch"); done
for source in kernels/cuda/*.cu; do
    # shellcheck disable=SC2086 # flags are words
    if ! "$NVCC" $NVCC_FLAGS "${gencode[@]}" -Xptxas -v -c "$source" -o "$out/object" > "$out/said" 2>&1; then
        echo "$source: does not compile"
        grep -E 'error|fatal' "$out/said"
        ((failed += 1))
        continue
    fi
    c++filt < "$out/said" | awk -v source="$source" '
        /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; arch = part[4] }
        / bytes stack frame, / { frame = $1; spilled = $5 + $9 }
        /: Used [0-9]+ registers/ && kernel != "" {
            match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
            shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
            printf "%d\t%d\t%d\t%d\t%s: %s on %s\n", spilled, frame, registers, shared, source, kernel, arch
            kernel = ""
        }' >> "$out/kernels"
done
touch "$out/kernels"
if [[ ${1:-} == --table ]]; then
    echo "registers  shared bytes  kernel"
    awk -F '\t' '{ printf "%9d  %12d  %s\n", $3, $4, $5 }' "$out/kernels"
fi
awk -F '\t' '$1 > 0 || $2 > 0 { print $5 ": " $1 " bytes spilled, " $2 " bytes of local memory" }' "$out/kernels"
read -r passed spilling < <(awk -F '\t' '$1 > 0 || $2 > 0 { bad++ } END { print NR - bad, bad + 0 }' "$out/kernels")
((failed += spilling))
if ((passed + failed == 0)); then
    echo "ptxas: no kernels found"
    failed=1
fi
echo "$passed passed, $failed failed"
((failed == 0))
