#!/usr/bin/env bash
# build_flags.sh - make takes the flags of its users beside its own, asks for headers before it
# compiles, and says how each file is compiled. Nothing is built here.
source tests/e2e/lib/common.sh
root=$PWD
[[ -f Makefile && -f cuda.mk ]] || { echo "no Makefile here"; exit 77; }

# flags VARIABLE=VALUE... - how a file of base is compiled with them, in $out
flags()
{
    make --no-print-directory -nB V=1 CUDA=0 "$@" 2>&1 | grep -e ' -c base/str[.]c ' > "$out"
    [[ $(wc -l < "$out") == 1 ]] || broken_run "make $*: base/str.c is compiled other than once"
}
# holds NAME PATTERN - in the command; lacks the opposite
holds() { grep -qE -- "$2" "$out" || broken_run "$1: no $2"; }
lacks() { ! grep -qE -- "$2" "$out" || broken_run "$1: has $2"; }

flags all
holds "plain" ' -O2 .* -c '
holds "plain" '-D_FORTIFY_SOURCE='
flags CFLAGS=-O0 CPPFLAGS=-DMINE all
holds "CFLAGS=-O0" ' -O2 .*-O0'
lacks "CFLAGS=-O0" '-O0 .*-O2'
lacks "CFLAGS=-O0" '-D_FORTIFY_SOURCE='
holds "CPPFLAGS=-DMINE" ' -I[.] .*-D_GNU_SOURCE .*-DMINE '
flags CPPFLAGS=-DMINE CFLAGS=-O3 EMU=0 DEBUG=1 all
holds "DEBUG=1" ' -g3 .*-DMINE -O3 .* build/debug/obj/base/str[.]o'
flags DEBUG=1 all
holds "DEBUG=1" '-O0 -g3'
make --no-print-directory -nB V=1 CUDA=0 LDFLAGS=-Wl,--mine all 2>&1 |
    grep -e ' -o convoy ' > "$out"
holds "LDFLAGS" '-fopenmp -Wl,--mine .*-ldnnl'

# ---- headers ----
export COMPILE=${CC:-gcc}
expect "headers that are there" 0 scripts/build/headers.sh stdlib.h:libc6-dev:glibc-devel
COMPILE+=' -DX="a b"' expect "flags with a blank" 0 scripts/build/headers.sh stdlib.h:a:b
expect "headers that are not" 1 scripts/build/headers.sh stdlib.h:a:b \
    no_such_header.h:libnone-dev:none-devel nor_this.h:libnor-dev:nor-devel
expect_text "headers that are not" 1 "build: missing headers: no_such_header.h nor_this.h. "
expect_text "headers that are not" 1 "apt-get install libnone-dev libnor-dev "
expect_text "headers that are not" 1 "dnf install none-devel nor-devel"
COMPILE=no_such_compiler expect "no compiler" 1 scripts/build/headers.sh stdlib.h:a:b
expect_text "no compiler" 1 "build: there is no no_such_compiler"
make --no-print-directory -nB V=1 CUDA=0 all 2>&1 > "$out"
line() { grep -nE -m 1 -- "$1" "$out" | cut -d: -f1; }
(($(line 'scripts/build/headers[.]sh') < $(line ' -c '))) || broken_run "files come before headers"

# ---- how files are compiled ----
make --no-print-directory -nB V=1 CUDA=0 build | scripts/build/compile_commands.sh > "$out"
holds "compile commands" \
    "\"directory\": \"$root\", \"file\": \"base/str[.]c\", \"command\": \".* -c base/str[.]c -o "
if command -v python3 > /dev/null; then
    python3 -c 'import json, os, sys
rows = json.load(sys.stdin)
files = {row["file"] for row in rows}
sys.exit(not (len(rows) > 400 and len(files) == len(rows) and all(map(os.path.exists, files))))' \
        < "$out" || broken_run "compile commands: no list of files"
else
    echo "not tested: compile commands as JSON: no python3"
fi

# ---- architectures ----
cat > "$SCRATCH/mk" << 'END'
B := build
comma := ,
CUDA := 0
EMU := 0
CUDA_MISSING :=
include cuda.mk
$(info archs $(CUDA_ARCHS) ptx $(CUDA_PTX)$(NATIVE_SAYS))
all: ;
END
mkdir -p "$SCRATCH/bin"
printf '#!/bin/sh\nprintf "8.0\\n9.0\\n8.0\\n"\n' > "$SCRATCH/bin/nvidia-smi"
chmod +x "$SCRATCH/bin/nvidia-smi"
PATH=$SCRATCH/bin:$PATH make -s -f "$SCRATCH/mk" CUDA_ARCHS=native all > "$out" 2>&1
expect_text "native, with GPUs" 1 "archs 80 90 ptx 90, that of the GPUs here"
printf '#!/bin/sh\nexit 9\n' > "$SCRATCH/bin/nvidia-smi"
PATH=$SCRATCH/bin:$PATH make -s -f "$SCRATCH/mk" CUDA_ARCHS=native all > "$out" 2>&1
expect_text "native, without" 1 "archs 90 ptx 90, as no GPU is here"

# ---- versions ----
if git clone -q --depth 1 "file://$root" "$SCRATCH/clone" 2> /dev/null; then
    commit() { make -C "$SCRATCH/clone" -f "$root/Makefile" -pnq CUDA=0 2> /dev/null |
        sed -n "s/^COMMIT := //p" > "$out"; }
    commit
    holds "a commit" '^[0-9a-f]{12}$'
    version=$(sed -n 's/^.define CONVOY_VERSION "\(.*\)"/\1/p' base/version.h)
    git -C "$SCRATCH/clone" tag "v$version"
    commit
    lacks "a release" .
    git -C "$SCRATCH/clone" tag -d "v$version" > /dev/null
    git -C "$SCRATCH/clone" tag v99.0.0
    commit
    holds "a tag of another version" '^[0-9a-f]{12}$'
else
    echo "not tested: versions: no git, or not a clone"
fi
exit "$failed"
