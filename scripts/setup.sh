#!/usr/bin/env bash
# setup.sh [--list] - installs the Debian or Ubuntu packages that building and testing need. Says
# what it installs; when all is there, one line.
#
# Known to hold on Debian 12 and 13 and Ubuntu 24.04, where every name below exists; libjpeg-dev is
# libjpeg-turbo on all three. libdnnl-dev is oneDNN 2.x on the first and 3.x on the others:
# kernels/cpu/dnnl_compat.h covers both. Ubuntu 22.04 has no libspng-dev.
set -euo pipefail

packages=(
    gcc libc6-dev make pkg-config
    libdnnl-dev              # oneDNN: convolutions and matrix products on the CPU
    libjpeg-dev libspng-dev  # image decoding
    libyaml-dev              # config files
    zlib1g-dev               # .gz data files
    libopenmpi-dev openmpi-bin
    iproute2                 # a test with several hosts on one machine
    g++                      # CUDA kernels: what nvcc calls for the host's part, and what compiles
                             # them for the test double
)
# Not from here: CUDA itself. Where NVIDIA's toolkit (12 or 13), cuDNN 9 and NCCL 2 are installed,
# by NVIDIA's own packages, `make` finds them and says so; CUDA_HOME, CUDNN_HOME and NCCL_HOME name
# other places. The Python packages will do as well:
#     pip install --target DIR nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl \
#         nvidia-cublas nvidia-cudnn-cu13 nvidia-nccl-cu13
#     make CUDA_WHEELS=DIR/nvidia

if [[ ${1:-} == --list ]]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi
if ! command -v dpkg-query > /dev/null; then
    echo "setup: this is not Debian or Ubuntu;" \
        "install what these packages hold by your own means: ${packages[*]}"
    exit 0
fi

# Names of installed packages and of what they provide (pkgconf provides pkg-config).
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Provides}\n' |
    awk '$1 == "ii" { gsub(/\([^)]*\)|,/, ""); for (i = 2; i <= NF; i++) print $i }')
missing=()
for package in "${packages[@]}"; do
    grep -qxF "$package" <<< "$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
    echo "setup: all packages are installed"
    exit 0
fi

sudo=()
if ((EUID != 0)); then
    if ! command -v sudo > /dev/null; then
        echo "setup: missing packages: ${missing[*]}." \
            "Install them as root: apt-get install ${missing[*]}" >&2
        exit 78
    fi
    sudo=(sudo)
fi
echo "setup: installing ${missing[*]} (apt-get${sudo:+, through sudo})"
# A machine that has just started may be updating itself.
wait_for_lock=(-o DPkg::Lock::Timeout=300)
"${sudo[@]}" apt-get "${wait_for_lock[@]}" update -qq
if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${wait_for_lock[@]}" install -y -qq \
    --no-install-recommends "${missing[@]}"; then
    echo "setup: apt-get could not install ${missing[*]}. Debian 12 and 13 and Ubuntu 24.04 have" \
        "all of them (Ubuntu 22.04 lacks libspng-dev); elsewhere build what is missing from" \
        "source" >&2
    exit 78
fi
