#!/usr/bin/env bash
# setup.sh [--list|--ci] - installs the Debian or Ubuntu packages that building and testing need.
# Says what it installs; when all is there, one line. With --ci also those of tests that are skipped
# without them, as far as they can be had.
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
    iproute2 procps          # tests with several hosts on one machine, and of processes
    g++                      # CUDA kernels: what nvcc calls for the host's part, and what compiles
                             # them for the test double
)
# Not from here: CUDA itself. Where NVIDIA's toolkit (12 or 13), cuDNN 9 and NCCL 2 are installed,
# by NVIDIA's own packages, `make` finds them and says so; CUDA_HOME, CUDNN_HOME and NCCL_HOME name
# other places. The Python packages will do as well:
#     pip install --target DIR nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl \
#         nvidia-cublas nvidia-cudnn-cu13 nvidia-nccl-cu13
#     make CUDA_WHEELS=DIR/nvidia

# A Slurm of several nodes on one machine (tests/e2e/slurm*.sh), make fuzz, and what looks at what
# is installed (tests/e2e/install.sh).
ci_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins clang
    man-db mandoc zsh dpkg-dev lintian)

if [[ ${1:-} == --list ]]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi
if ! command -v dpkg-query > /dev/null; then
    echo "setup: this is not Debian or Ubuntu;" \
        "install what these packages hold by your own means: ${packages[*]}"
    exit 0
fi

# libFuzzer is in a package of clang's version, by which its name goes.
libfuzzer() {
    apt-cache depends clang 2> /dev/null |
        sed -nE 's/.*Depends: clang-([0-9]+)$/libclang-rt-\1-dev/p'
}
# shellcheck disable=SC2207 # one word
[[ ${1:-} != --ci ]] || packages+=("${ci_packages[@]}" $(libfuzzer))

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
if [[ ${1:-} == --ci ]]; then # what is not to be had costs tests, no more
    mapfile -t missing < <({ printf '%s\n' "${missing[@]}" && libfuzzer; } | sort -u |
        while read -r package; do
            [[ -z $(apt-cache policy "$package") ]] || echo "$package"
        done)
fi
if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${wait_for_lock[@]}" install -y -qq \
    --no-install-recommends "${missing[@]}"; then
    echo "setup: apt-get could not install ${missing[*]}. Debian 12 and 13 and Ubuntu 24.04 have" \
        "all of them (Ubuntu 22.04 lacks libspng-dev); elsewhere build what is missing from" \
        "source" >&2
    exit 78
fi
