#!/usr/bin/env bash
# gpu_pack.sh [EXTRA...] - builds for one kind of GPU, under build/gpu_pack, and puts into .gpu/
# what a bare machine with such a GPU needs to run scripts/gpu_check.sh: the binaries and the shared
# libraries, Open MPI's parts included, that it may lack. EXTRA files are put beside them:
# cifar10-jpeg.tar.gz, images.tar.
#
# Each binary holds all kernels. They are packed together by xz with a window wider than all of
# them, so that the kernels are in it once.
#
# Plans of cuDNN that scripts/gpu/gpu_learn.py put into configs/gpus travel with the tree.
#
# There `scripts/gpu_check.sh` unpacks the libraries at the places they have here, except over files
# that are there already; the C library is not among them, so that machine's must be as new as this
# one's. The GPU's own libraries (driver, cuDNN, cuBLASLt, NCCL) are not packed either.
#
#   REHEARSE=h200   packs the emulated build (make EMU=1 build) instead,
#                   for a rehearsal of gpu_check.sh
#   CUDA_ARCHS=90   the compute capability of the GPU, as for make
#   LIMIT_MB=60     what .gpu/ may take; more is an error. With the tree beside it, it must travel
#                   in 64 MiB
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=(convoy ops unit make_shapes make_commcheck make_ckptdiff make_jsonlcheck)
if [[ -n ${REHEARSE:-} ]]; then
    build=build/emu
else
    build=build/gpu_pack
    make --no-print-directory -j"$(nproc)" VARIANT=/gpu_pack CUDA=1 CUDA_ARCHS="${CUDA_ARCHS:-90}" \
        "${programs[@]/#/$build/}" "$build/libconvoy_mpi_ompi.so"
fi
for b in "${programs[@]/#/$build/}"; do
    [[ -x $b ]] || {
        echo "gpu_pack: $b is not built; run make ${REHEARSE:+EMU=1 }build first" >&2
        exit 78
    }
done
for extra in "$@"; do
    [[ -r $extra ]] || { echo "gpu_pack: $extra cannot be read" >&2; exit 66; }
done
rm -rf .gpu
mkdir .gpu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
cp "${programs[@]/#/$build/}" "$build/libconvoy_mpi_ompi.so" "$folder/bin"
[[ -n ${REHEARSE:-} ]] || strip --strip-debug "$folder"/bin/*
tar -C "$folder" -c bin | xz -T 1 -6 --lzma2=preset=6,dict=256MiB > .gpu/bin.tar.xz

# What the binaries and mpirun load, and the folders that Open MPI and PMIx read at run time.
mpirun_file=$(readlink -f "$(command -v mpirun)")
libmpi=$(/sbin/ldconfig -p | awk '$1 == "libmpi.so.40" { print $NF; exit }')
library_folder=$(dirname "$libmpi")
folders=()
for d in /etc/openmpi "$library_folder/openmpi" "$library_folder/pmix2" /usr/share/openmpi \
    /usr/share/pmix /usr/share/pmix2
do
    [[ -d $d ]] && folders+=("$d")
done
mapfile -t plugins < <(find "${folders[@]}" -name '*.so' -type f)
libraries=$({
    echo "$libmpi"
    for f in "$folder"/bin/* "$libmpi" "$mpirun_file" "${plugins[@]}"; do
        ldd "$f" 2> /dev/null || true
    done | awk '$3 ~ /^[/]/ { print $3 }'
} | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|ld-linux[^/]*)[.]so')
launchers=$(for p in mpirun orterun orted; do command -v "$p" || true; done)
# With every link on the way to a file, so that sonames resolve.
mapfile -t files < <(for f in $libraries $launchers; do
    while [[ -L $f ]]; do
        echo "$f"
        target=$(readlink "$f")
        [[ $target == /* ]] || target=$(dirname "$f")/$target
        f=$(realpath -s "$target")
    done
    echo "$f"
done | sort -u)
# ./ANY/PATH, to be unpacked at /; a folder that is a link here (/lib) is
# packed as what it points to.
printf '%s\0' "${files[@]}" "${folders[@]}" |
    sed -z 's,^/lib/,/usr/lib/,; s,^/bin/,/usr/bin/,; s,^/,./,' |
    tar -C / --null --no-recursion -T <(
        cat
        find "${folders[@]}" -mindepth 1 ! -name '*.a' -print0 |
            sed -z 's,^/lib/,/usr/lib/,; s,^/,./,'
    ) -cJf .gpu/libraries.tar.xz
for extra in "$@"; do cp "$extra" .gpu/; done
du -ch .gpu/*
megabytes=$(du -sm .gpu | cut -f 1)
((megabytes <= ${LIMIT_MB:-60})) || {
    echo "gpu_pack: $megabytes MB are more than ${LIMIT_MB:-60}" >&2
    exit 74
}
