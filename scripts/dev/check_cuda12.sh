#!/usr/bin/env bash
# check_cuda12.sh DIR - does Convoy build with CUDA 12.9, cuDNN 9.10 and NCCL, the last that know a
# V100? Needs Debian 12 or newer and no GPU.
#
# Everything goes into DIR, which keeps it for another time: about 2 GB of packages to fetch, 6 GB
# of disk. NVIDIA's Python packages of CUDA 12 hold headers, libraries, ptxas and NVRTC, but no
# nvcc, and Debian's nvcc is of 12.4. Hence two checks of the kernels:
#
#   nvrtc   by NVRTC 12.9, which is the device half of nvcc 12.9, for sm_70, 75, 80 and 90: no
#           warning, no spilled register
#   build   by make with warnings as errors, in a copy of the tree: the nvcc 12.4 of Debian trixie
#           (driver and front end) over the headers, ptxas, libdevice and runtime of 12.9, for every
#           architecture that the Makefile builds for; the .c files against cuDNN 9.10's headers
#
# Then, with these libraries: unit tests of the CUDA backend, and the convolutions of all networks
# find engines for a V100 in fp16 and fp32. The last line is "N passed, N failed, N skipped".
# Not part of CI, for what it fetches.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
source scripts/tally.sh
if (($# != 1)); then
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"
    exit 64
fi
mkdir -p "$1" && dir=$(realpath "$1") || exit 74
nvidia=$dir/wheels/nvidia home=$dir/cuda-12.9
wheels=(nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-runtime-cu12==12.9.79
    nvidia-cuda-cccl-cu12==12.9.27 nvidia-cuda-nvrtc-cu12==12.9.86
    'nvidia-cublas-cu12==12.9.*' nvidia-cudnn-cu12==9.10.2.21 nvidia-nccl-cu12)

fetch_wheels() {
    python3 -m venv "$dir/venv" && "$dir/venv/bin/pip" install --quiet --no-cache-dir --no-deps \
        --target "$dir/wheels" "${wheels[@]}"
}

# Debian's nvcc, unpacked only. apt works on folders of its own here,
# with the repository that the system uses.
fetch_nvcc() {
    local apt=$dir/apt repository
    # shellcheck disable=SC2016 # apt's own variable
    repository=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' |
        head -n 1)
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "$repository trixie non-free" > "$apt/sources.list"
    printf '%s "%s";\n' Dir::Etc::sourcelist "$apt/sources.list" Dir::Etc::sourceparts /dev/null \
        Dir::State::lists "$apt/lists" \
        Dir::Cache "$apt/cache" APT::Sandbox::User root > "$apt/apt.conf"
    (cd "$apt" && export APT_CONFIG=$apt/apt.conf && apt-get -qq update &&
        apt-get -qq download nvidia-cuda-toolkit) &&
        dpkg -x "$apt"/nvidia-cuda-toolkit_*.deb "$apt/root"
}

# A folder as NVIDIA's installer would lay it out.
assemble_home() {
    local debian=$dir/apt/root/usr part
    mkdir -p "$home/bin" "$home/nvvm/bin" "$home/include" "$home/lib64"
    cp "$debian/lib/nvidia-cuda-toolkit/bin/nvcc" "$debian/bin/cudafe++" "$debian/bin/fatbinary" \
        "$nvidia/cuda_nvcc/bin/ptxas" "$home/bin/"
    cp "$debian/lib/nvidia-cuda-toolkit/bin/cicc" "$home/nvvm/bin/"
    cp -r "$nvidia/cuda_nvcc/nvvm/libdevice" "$home/nvvm/"
    for part in cuda_nvcc cuda_runtime cuda_cccl cublas; do
        cp -r "$nvidia/$part/include/." "$home/include/"
    done
    for part in cuda_runtime cublas cuda_nvrtc; do ln -sf "$nvidia/$part"/lib/* "$home/lib64/"; done
    cat > "$home/bin/nvcc.profile" << 'EOF'
TOP                = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
EOF
}

# Each part is made once.
[[ -d $nvidia ]] || fetch_wheels || {
    rm -rf "$nvidia"
    echo "check_cuda12: cannot fetch NVIDIA's packages" >&2
    exit 78
}
[[ -d $dir/apt/root ]] || fetch_nvcc || {
    rm -rf "$dir/apt"
    echo "check_cuda12: cannot fetch Debian's nvidia-cuda-toolkit" >&2
    exit 78
}
rm -rf "$home" && assemble_home || exit 74
"$home/bin/nvcc" --version | sed -n 's/^Cuda.*/nvcc: &/p'
"$home/bin/ptxas" --version | sed -n 's/^Cuda.*/ptxas: &/p'

stage() {
    echo "== $1"
    tally_run "$@"
}

rm -rf "$dir/nvrtc"
stage "kernels by NVRTC" python3 scripts/gpu/nvrtc.py "$nvidia/cuda_nvrtc/lib/libnvrtc.so.12" \
    "$home/include" "$dir/nvrtc" 70 75 80 90
stage "their registers" scripts/dev/ptxas.sh "$dir"/nvrtc/*.ptxas

# A copy keeps its times, so that another run compiles what has changed.
mkdir -p "$dir/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --preserve=timestamps \
    -t "$dir/tree"
build=(make --no-print-directory -C "$dir/tree" CUDA=1 WERROR=1 "CUDA_HOME=$home"
    "CUDNN_HOME=$nvidia/cudnn" "NCCL_HOME=$nvidia/nccl")
stage build "${build[@]}" -j"$(nproc)" all
if [[ -x $dir/tree/convoy ]]; then
    "$dir/tree/convoy" --version
    # shellcheck disable=SC2016 # make's own function
    stage "unit tests" "${build[@]}" \
        'UNIT=tests/test_main.c $(wildcard tests/unit/kernels/cuda/test_cuda_*.c)' unit \
        "ARGS=--filter=cuda --timeout=300"
    stage "engines for a V100" "${build[@]}" sweep \
        "ARGS=--gpu=v100 --precision=fp16,fp32 --fuse=none"
fi
tally_end
