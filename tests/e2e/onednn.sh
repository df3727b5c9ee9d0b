#!/usr/bin/env bash
# onednn.sh - another oneDNN than the system's: what make takes from DNNL_HOME and where programs
# find it then, and scripts/setup.sh --onednn3 where it cannot have its files or is given others.
source tests/e2e/lib/common.sh

home=$SCRATCH/dnnl
# made TARGET [HOME] - the line of make that would link it
made()
{
    make -n V=1 "B=$SCRATCH/b" CONVOY=tree "DNNL_HOME=${2-$home}" "$1" 2> "$out" |
        grep -F -- "-o $1 "
}
expect "no header" 2 make -n "DNNL_HOME=$home"
expect_text "no header" 1 "DNNL_HOME=$home, but not found there: oneapi/dnnl/dnnl.h libdnnl.so"
mkdir -p "$home/include/oneapi/dnnl" "$home/lib"
touch "$home/include/oneapi/dnnl/dnnl.h"
expect "no library" 2 make -n "DNNL_HOME=$home"
expect_text "no library" 1 "not found there: libdnnl.so"
touch "$home/lib/libdnnl.so"
line=$(made tree)
[[ $line == *" -L$home/lib -ldnnl "*"-Wl,-rpath,$home/lib"* ]] || broken_run "the tree: $line"
line=$(made "$SCRATCH/b/install/convoy")
[[ $line == *" -L$home/lib -ldnnl "* && $line != *"$home/lib "*rpath* ]] ||
    broken_run "installed with a folder of this machine: $line"
line=$(made tree "")
[[ $line == *" -ldnnl "* && $line != *onednn3* ]] || broken_run "the system's: $line"

# setup.sh --onednn3 in a tree of its own; python3 is the caller's business
tree=$SCRATCH/tree
mkdir -p "$tree/scripts" "$SCRATCH/bin" "$SCRATCH/wheels"
cp scripts/setup.sh "$tree/scripts"
onednn3() { env PATH="$SCRATCH/bin:$PATH" "$@" bash "$tree/scripts/setup.sh" --onednn3; }
refused() # WHAT RC TEXT - and nothing is left
{
    expect "$1" "$2" onednn3 "${@:4}"
    expect_text "$1" 1 "$3"
    [[ -z $(find "$tree" -mindepth 1 ! -path "$tree/scripts*") ]] || broken "$1: something is left"
}
printf '#!/bin/sh\nexit 1\n' > "$SCRATCH/bin/python3"
chmod +x "$SCRATCH/bin/python3"
refused "no pip" 78 "python3-pip"
rm "$SCRATCH/bin/python3"
if python3 -m pip --version > /dev/null 2>&1; then
    refused "no files" 69 "could not get oneDNN 3.2" PIP_NO_INDEX=1 PIP_FIND_LINKS=
    for name in onednn_cpu_gomp onednn_devel_cpu_gomp; do
        echo other > "$SCRATCH/wheels/$name-2023.2.0-py2.py3-none-any.whl"
    done
    refused "other files" 69 "could not get oneDNN 3.2" PIP_NO_INDEX=1 \
        "PIP_FIND_LINKS=$SCRATCH/wheels"
    expect_text "other files" some "onednn"
else
    echo "not tested: wrong files for setup.sh --onednn3: python3 has no pip"
fi

# A oneDNN whose results are not there when a call returns is refused.
cat > "$SCRATCH/sycl.c" << 'END'
static const struct { int number[3]; const char *hash; unsigned cpu, gpu; } version = {
    { 9, 8, 7 }, "", 512, 0 };
const void *dnnl_version(void) { return &version; }
END
read -ra compiler <<< "${CC:-gcc}"
if command -v "${compiler[0]}" > "$out"; then
    expect "compile" 0 "${compiler[@]}" -shared -fPIC "$SCRATCH/sycl.c" -o "$SCRATCH/sycl.so"
    make_config
    settings refused data.format=synthetic data.synthetic_images=8 data.train= model.name=mlp
    expect "SYCL" 78 env "LD_PRELOAD=$SCRATCH/sycl.so" "$CONVOY" train "${sets[@]}"
    expect_text "SYCL" 1 "oneDNN 9.8.7 is not built for OpenMP, which Convoy requires"
else
    echo "not tested: a oneDNN that is not built for OpenMP: no compiler"
fi
exit "$failed"
