#!/usr/bin/env bash
# cuda_hidden.sh - a build with CUDA starts, says what is missing and trains on the CPU where there
# is none of CUDA's libraries. They are hidden in a mount namespace of its own.
source tests/e2e/lib/common.sh
"$CONVOY" --version > "$out" 2>&1
if ! grep -q '^backend cuda: compiled with CUDA' "$out"; then
    echo "$CONVOY was built without CUDA"
    exit 77
fi
if ! unshare --mount true 2> /dev/null; then
    echo "this machine does not allow mount namespaces"
    exit 77
fi
if readelf -d "$CONVOY" | grep -E 'NEEDED.*(cuda|cudnn|cublas|nccl)'; then
    broken "$CONVOY needs libraries of CUDA to start"
fi
# RUNPATH, unlike RPATH, comes after LD_LIBRARY_PATH.
if readelf -d "$CONVOY" | grep -E '[(]RPATH[)]'; then
    broken "$CONVOY looks for libraries where LD_LIBRARY_PATH cannot change it"
fi

nvcc=$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")
toolkit=$(dirname "$(dirname "$nvcc")")
folders=("$toolkit")
while read -r file; do
    folder=$(dirname "$(readlink -f "$file")")
    [[ $folder == "$toolkit"* ]] || folders+=("$folder")
done < <(ldconfig -p | awk '/libcudnn|libcublasLt|libnccl/ { print $NF }')

# hidden ARGS... - convoy where those folders are empty; a system folder is spared,
# only its files are covered.
hidden()
{
    unshare --mount bash -c '
        for folder in $FOLDERS; do
            case $folder in
                /usr/lib/* | /lib/*)
                    for f in "$folder"/libcudnn* "$folder"/libcublasLt* "$folder"/libnccl*; do
                        mount --bind /dev/null "$f" || exit 1
                    done
                    ;;
                *) mount -t tmpfs none "$folder" || exit 1 ;;
            esac
        done
        exec "$@"' hidden "$CONVOY" "$@"
}
export FOLDERS="${folders[*]}"

expect "version" 0 hidden --version
expect_text "version" some "backend cuda: compiled with CUDA"
grep -q '^backend cuda:.*cannot' "$out" || grep -q '^backend cuda:.*not found' "$out" ||
    broken_run "version: does not say what is missing"

make_data "$SCRATCH/data" 2 1
make_config
expect "training on the CPU" 0 hidden train "$SCRATCH/small.yaml" --set run.dir="$SCRATCH/run" \
    --set train.max_steps=2 --set device.backend=auto
expect_text "training on the CPU" some "(cpu, fp32)"
expect "device.backend=cuda" 78 hidden train "$SCRATCH/small.yaml" --set run.dir="$SCRATCH/none" \
    --set train.max_steps=2 --set device.backend=cuda
exit "$failed"
