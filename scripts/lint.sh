#!/usr/bin/env bash
# lint.sh - checks what the compiler does not: who may use whom, names, what nobody needs, that
# headers stand alone, words with one home, the form of the text. Tables and longer checks are in
# lint/.
#
# One line per finding, "file:line: what"; the last line is "N passed, N failed, N skipped", where
# each kind of check counts as one test. Checks that read objects find them in the folder OBJECTS,
# those of the product by the names in BUILT; empty where they are not there or not of today's
# sources.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
source scripts/tally.sh
export LC_ALL=C
CC=${CC:-gcc}
scratch=$(mktemp -d)
findings=$scratch/findings
: > "$findings"
trap 'rm -rf "$scratch"' EXIT

# report NAME: shows what the check has put into $findings and counts it.
report() {
    if [[ -s $findings ]]; then
        echo "lint: $1:"
        sed 's/^/  /' "$findings"
        ((failed += 1))
    else
        ((passed += 1))
    fi
    : > "$findings"
}

rooms=(base data kernels models trainer)
mapfile -t c_files < <(find "${rooms[@]}" tests examples -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.hpp' \) | sort)
mapfile -t product_files < <(printf '%s\n' "${c_files[@]}" | grep -vE "^(tests|examples)/")
mapfile -t headers < <(printf '%s\n' "${product_files[@]}" | grep -E '[.](h|cuh)$')
mapfile -t other_files < <(find configs docs findings scripts .ci "${rooms[@]}" tests -type f \
    \( -name '*.md' -o -name '*.sh' -o -name '*.py' -o -name '*.yaml' -o -name '*.awk' \
    -o -name '*.sbatch' -o -name Dockerfile -o -path '.ci/*' \) | sort
    find . -maxdepth 1 -type f \( -name '*.md' -o -name Makefile -o -name '*.mk' \
        -o -name .clang-format -o -name .gitignore \) | sed 's|^[.]/||' | sort)
text_files=("${c_files[@]}" "${other_files[@]}")

# rule NAME ARGS...: lint/NAME.awk, which may use lint/text.awk
rule() {
    local name=$1
    shift
    awk -f scripts/lint/text.awk -f "scripts/lint/$name.awk" "$@"
}

# ---- floors: rooms.txt says which room may use which ----
awk -v rooms=scripts/lint/rooms.txt -f scripts/lint/rooms.awk -f scripts/lint/includes.awk \
    "${product_files[@]}" > "$findings"
report "includes against the floors of the house"

# Which headers of a room others see: the first pattern that fits a file holds.
faces='
^models/graph/             ^(base/|models/graph/|kernels/(op[a-z_]*|tensor|dtype)[.]h$)
^models/                   ^(base/|models/[a-z_0-9]+[.]h$|models/graph/graph[.]h$)
^trainer/app/cmd/(bench/bench_decode|cmd_pack)[.]c$           ^(base|data|trainer)/
^trainer/engine/session/(build_info[.]c|cache_share[.]h)$   ^(base|data|kernels|models|trainer)/
^trainer/app/monitor/event_file[.]c$                     ^(base|data|trainer)/
^trainer/                  ^((base|models|trainer)/|(data|kernels|kernels/ops)/[a-z_]+[.]h$)
^tests/emu/                ^((base|kernels|tests|trainer/engine/comm)/|[a-z_]+[.]h(pp)?$)
^tests/                    ^(base|kernels|data|models|trainer|tests)/
'
# Vendor headers: the first pattern that fits a name says where alone it may be included. tests/emu
# stands for CUDA; its files may include what they stand for.
vendors='
^(dnnl|oneapi)             ^kernels/cpu/
^cuda_runtime_api[.]h$     ^(kernels/cuda/|tests/emu/|trainer/engine/comm/comm_nccl[.]c$)
^(cudnn|cublas)            ^(kernels/cuda/cudnn/|tests/emu/)
^(cuda|nvrtc|nvml|cooperative_groups|cub/|thrust/)   ^(kernels/cuda/|tests/emu/)
^mpi[.]h$                  ^trainer/engine/comm/mpi_plugin[.]c$
^nccl                      ^trainer/engine/comm/comm_nccl[.]c$
^(jpeglib|jpegint|jerror|turbojpeg|spng|png)[.]h$   ^(data/decode|tests)/
^zlib[.]h$                 ^(data/(decode|source)|tests)/
^yaml[.]h$                 ^(trainer/engine/config|tests)/
'
awk -v faces="$faces" -v vendors="$vendors" '
    BEGIN {
        n = split(faces, f, /[ \n]+/)
        for (i = 2; i < n; i += 2) { who[++nw] = f[i]; allowed[nw] = f[i + 1] }
        n = split(vendors, f, /[ \n]+/)
        for (i = 2; i < n; i += 2) { vendor[++nv] = f[i]; home[nv] = f[i + 1] }
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, part, "\"")
        for (i = 1; i <= nw; i++) if (FILENAME ~ who[i]) break
        if (i <= nw && part[2] !~ allowed[i])
            print FILENAME ":" FNR ": may not include \"" part[2] "\""
    }
    /^[ \t]*#[ \t]*include[ \t]*</ {
        split($0, part, /[<>]/)
        for (i = 1; i <= nv; i++) if (part[2] ~ vendor[i]) break
        if (i <= nv && FILENAME !~ home[i])
            print FILENAME ":" FNR ": <" part[2] "> belongs to " home[i]
    }' "${c_files[@]}" > "$findings"
report "includes of what others do not show"

# ---- the same by what objects need of each other, and what nobody needs ----
OBJECTS=${OBJECTS:-build/obj}
if [[ -n ${BUILT:-} ]]; then
    # shellcheck disable=SC2086 # names are words
    (cd "$OBJECTS" && nm -A -P $BUILT) > "$scratch/symbols"
    awk -v rooms=scripts/lint/rooms.txt -f scripts/lint/rooms.awk -f scripts/lint/calls.awk \
        "$scratch/symbols" > "$findings"
    report "calls against the floors of the house, or in a circle"
    rule unused -v exceptions=scripts/lint/unused.txt "${c_files[@]}" \
        < "$scratch/symbols" | sort > "$findings"
    report "public functions and tables that nobody needs"
else
    tally_skip lint "not built, or not since the last change: calls between rooms not checked"
fi

# ---- folders and names ----
find "${rooms[@]}" -type f | awk '
    { sub(/\/[^\/]*$/, ""); files[$0]++ }
    END {
        # a file or a pair an op
        for (f in files) if (files[f] > 40 && f !~ /^kernels\/(cpu|cuda)$/)
            print f ": " files[f] " files, of at most 40: it has rooms of its own"
    }' > "$findings"
report "folders that hold too much"

rule names -v exceptions=scripts/lint/names.txt "${headers[@]}" > "$findings"
report "public functions that do not bear the name of their header"

find . -path ./build -prune -o -path ./.git -prune -o -type f -print > "$scratch/files"
mapfile -t named < <(printf '%s\n' "${text_files[@]}" | grep -v '^scripts/lint/')
rule stale -v files="$scratch/files" -v foreign=scripts/lint/foreign.txt \
    pass=1 "${named[@]}" pass=2 "${named[@]}" > "$findings"
report "names that do not exist"

# ---- every header compiles alone: those of kernels/cuda with CUDA's own headers where they are
# found, else with those of tests/emu ----
# check_header HEADER: what the compiler says, or "?" where it cannot
check_header() {
    local header=$1 compiler=$CC language=c flags=${CPPFLAGS:--I. -D_GNU_SOURCE} said
    local emu_isystem='-isystem tests/emu -Wno-unknown-pragmas'
    case $header in
    *.cuh | *.hpp | tests/emu/*.h)
        compiler=${CXX:-g++} language=c++ flags="$emu_isystem -DCONVOY_EMU=1 $flags"
        ;;
    kernels/cuda/*.h | tests/tools/cudnn_there.h) flags="$flags ${CUDA_ISYSTEM:-$emu_isystem}" ;;
    esac
    said='fatal error: no compiler'
    if command -v "${compiler%% *}" > /dev/null; then
        # shellcheck disable=SC2086 # commands and flags are words
        said=$(echo "#include \"$header\"" | $compiler "-std=${language}17" -Wall -Wextra \
            -fsyntax-only $flags -x "$language" - 2>&1)
    fi
    if grep -qE 'fatal error: (no compiler|(cudnn|cublas)[^ ]*: No such file)' <<< "$said"; then
        echo '?'
    else
        grep -E 'error|warning' <<< "$said" | sed "s|^|$header: |"
    fi
}
export -f check_header
export CC
printf '%s\n' "${c_files[@]}" | grep -E '[.](h|cuh|hpp)$' |
    xargs -P "$(nproc)" -I '{}' bash -c 'check_header {}' > "$scratch/said"
grep -vxF '?' "$scratch/said" | sort > "$findings"
report "headers that do not compile alone"
unchecked=$(grep -cxF '?' "$scratch/said")
((unchecked == 0)) ||
    tally_skip lint "$unchecked headers need a C++ compiler or cuDNN's headers"

# ---- scripts that bash or Python cannot parse ----
python=$(command -v python3) || tally_skip lint "no python3: Python scripts not parsed"
for file in "${other_files[@]}"; do
    case $file in
    *.sh) bash -n "$file" 2>&1 ;;
    *.py)
        [[ -z $python ]] ||
            python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file" \
                2>&1 | tail -n 1 | sed "s|^|$file: |"
        ;;
    esac
done > "$findings"
report "scripts that do not parse"

# ---- what users rely on does not change in silence ----
if [[ -f CHANGELOG.md ]]; then
    scripts/lint/interfaces.sh > "$findings" 2>&1 || echo "interfaces.sh failed" >> "$findings"
    report "changes that CHANGELOG.md does not tell"
fi

# ---- words with one home ----
rule words -v words=scripts/lint/words.txt "${c_files[@]}" > "$findings"
report "words outside their one home"

# ---- messages in plain English ----
scripts/lint/plain_words.sh --lint > "$findings"
report "messages that are not plain English"

# ---- form ----
awk '
    FNR == 1 && NR > 1 && blank_end != "" { print blank_end }
    { blank_end = $0 == "" ? FILENAME ":" FNR ": blank line at the end" : "" }
    FILENAME !~ /(Makefile|[.]mk)$/ && /\t/ { print FILENAME ":" FNR ": tab" }
    /[ \t]$/ { print FILENAME ":" FNR ": trailing blank" }
    /\r/ { print FILENAME ":" FNR ": carriage return" }
    FILENAME !~ /lint[.]sh$/ && /(TODO|FIXME)/ {
        print FILENAME ":" FNR ": unfinished work is an issue, not a comment"
    }
    END { if (blank_end != "") print blank_end }' "${text_files[@]}" > "$findings"
rule columns "${text_files[@]}" >> "$findings"
for file in "${text_files[@]}"; do
    [[ -s $file && -n $(tail -c 1 "$file") ]] && echo "$file: no newline at the end" >> "$findings"
done
report "form of the text"

# ---- clang-format: versions disagree with each other, so only the one the style was written with
# decides ----
version=$(clang-format --version 2> /dev/null | sed -nE 's/.*version ([0-9]+).*/\1/p')
if [[ $version == 14 ]]; then
    # the first one of each file says enough
    printf '%s\n' "${c_files[@]}" | xargs -P "$(nproc)" -n 40 clang-format --dry-run 2>&1 |
        sed -nE 's/^([^:]+:[0-9]+):[0-9]+: .*-Wclang-format-violations.*/\1/p' |
        sort -t: -k1,1 -k2,2n |
        awk -F: '!seen[$1]++ { print $0 ": see make format" }' > "$findings"
    report "clang-format"
else
    tally_skip lint \
        "clang-format 14 is not installed${version:+ (found $version)}: layout not checked"
fi

# ---- for a reader, not a verdict: the longest files ----
wc -l "${c_files[@]}" |
    awk '$2 != "total" && $1 > 600 { print "lint: note: " $2 " has " $1 " lines" }'

tally_end
