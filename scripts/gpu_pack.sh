#!/usr/bin/env bash
# gpu_pack.sh [EXTRA...] - puts into .gpu/ what a bare machine with a GPU needs to run scripts/gpu_check.sh: the binaries built here and the shared
# libraries, Open MPI's parts included, that such a machine may lack. EXTRA files (data archives) are linked in beside them.
#
# There `scripts/gpu_check.sh` unpacks the libraries at the places they have here, except over files that are there already; the C library is not
# among them, so that machine's must be as new as this one's. The GPU's own libraries (driver, cuDNN, cuBLASLt, NCCL) are not packed either.
set -euo pipefail
cd "$(dirname "$0")/.."

binaries=(convoy build/check build/unit build/cuda_sweep build/make_shapes)
for b in "${binaries[@]}"; do
    [[ -x $b ]] || { echo "gpu_pack: $b is not built; run make build sweep first" >&2; exit 78; }
done
rm -rf .gpu
mkdir -p .gpu/bin
cp "${binaries[@]}" .gpu/bin/

# What the binaries and mpirun load, and the folders that Open MPI and PMIx read at run time.
mpirun_file=$(readlink -f "$(command -v mpirun)")
library_folder=$(dirname "$(ldd convoy | awk '$1 ~ /^libmpi[.]so/ { print $3 }')")
folders=()
for d in /etc/openmpi "$library_folder/openmpi" "$library_folder/pmix2" /usr/share/openmpi /usr/share/pmix /usr/share/pmix2; do
    [[ -d $d ]] && folders+=("$d")
done
plugins=$(find "${folders[@]}" -name '*.so' -type f)
# shellcheck disable=SC2086 # one word per plugin
libraries=$(for f in "${binaries[@]}" "$mpirun_file" $plugins; do ldd "$f" 2> /dev/null || true; done |
    awk '$3 ~ /^[/]/ { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|ld-linux[^/]*)[.]so')
programs=$(for p in mpirun orterun orted; do command -v "$p" || true; done)
# With every link on the way to a file, so that sonames resolve.
files=$(for f in $libraries $programs; do
    while [[ -L $f ]]; do
        echo "$f"
        target=$(readlink "$f")
        [[ $target == /* ]] || target=$(dirname "$f")/$target
        f=$(realpath -s "$target")
    done
    echo "$f"
done | sort -u)
# shellcheck disable=SC2086
tar -cJf .gpu/libraries.tar.xz --absolute-names --exclude='*.a' $files "${folders[@]}" 2> /dev/null
for extra in "$@"; do cp "$extra" .gpu/; done
du -ch .gpu/* .gpu/bin/* | sort -h | tail -8
