#!/usr/bin/env bash
# setup.sh [--list|--ci] - installs the Debian or Ubuntu packages that building and testing need.
# Says what it installs; when all is there, one line. With --ci also those of tests that are skipped
# without them, as far as they can be had.
# setup.sh --onednn3 - instead puts oneDNN 3.2, its makers' own build from PyPI, into .onednn3,
# where make finds it (docs/running.md).
#
# Known to hold on Debian 12 and 13 and Ubuntu 24.04, where every name below exists; libjpeg-dev is
# libjpeg-turbo on all three. libdnnl-dev is oneDNN 2.x on the first and 3.x on the others:
# kernels/cpu/dnnl_compat.h covers both. Ubuntu 22.04 has no libspng-dev.
set -euo pipefail

packages=(
    gcc libc6-dev make
    libdnnl-dev              # oneDNN: convolutions and matrix products on the CPU
    libjpeg-dev libspng-dev  # image decoding
    libyaml-dev              # config files
    libhwloc-dev             # which CPUs are near which GPU
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

# A Slurm of several nodes on one machine (tests/e2e/slurm*.sh), make fuzz, what looks at what is
# installed (tests/e2e/install.sh) and at Prometheus' files (promtool), the compiler's cache, what
# make wheel and its test need, a browser for tests/e2e/pages.sh, and the other MPI, beside which
# Open MPI stays the mpicc and mpirun of Debian and Ubuntu.
ci_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins clang ccache
    man-db mandoc zsh dpkg-dev lintian prometheus patchelf unzip python3-venv chromium
    libmpich-dev mpich)

if [[ ${1:-} == --list ]]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi

# What is refused leaves nothing behind, and what is there stays as it is.
onednn3() {
    local target=.onednn3 new=.onednn3.new
    cd "$(dirname "$0")/.."
    if [[ -e $target/lib/libdnnl.so ]]; then
        echo "setup: oneDNN 3.2 is in $target"
        return
    fi
    if ! python3 -m pip --version > /dev/null 2>&1; then
        echo "setup: --onednn3 needs python3 and its pip (package python3-pip)" >&2
        exit 78
    fi
    rm -rf "$new" "$target"
    mkdir "$new"
    trap 'rm -rf "$PWD/'$new'"' EXIT
    printf '%s==2023.2.0 --hash=sha256:%s\n' > "$new/wheels" onednn-cpu-gomp \
        2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb onednn-devel-cpu-gomp \
        9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284
    if ! python3 -m pip -q download --no-deps --no-cache-dir --only-binary :all: --require-hashes \
        --dest "$new" -r "$new/wheels"; then
        echo "setup: could not get oneDNN 3.2 for $(uname -m) from PyPI" >&2
        exit 69
    fi
    for wheel in "$new"/*.whl; do python3 -m zipfile -e "$wheel" "$new"; done
    mkdir "$new/onednn3"
    cp -r "$new"/*.data/data/* "$new/onednn3/"
    # a wheel has no links, and so the library three times
    ln -sf libdnnl.so.3 "$new/onednn3/lib/libdnnl.so"
    ln -sf libdnnl.so.3 "$new/onednn3/lib/libdnnl.so.3.2"
    mv "$new/onednn3" "$target"
    echo "setup: oneDNN 3.2 is in $target now; make takes it from there"
}
if [[ ${1:-} == --onednn3 ]]; then
    onednn3
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

# Names of installed packages and of what they provide.
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
