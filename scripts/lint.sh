#!/usr/bin/env bash
# lint.sh - checks what the compiler does not: who may include whom, that headers stand alone, words with one home, the form of the text.
#
# One line per finding, "file:line: what"; the last line is "N passed, N failed", where each kind of check counts as one test.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
CC=${CC:-gcc}
passed=0 failed=0
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

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

mapfile -t c_files < <(find base data kernels models trainer tests \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.hpp' \) | sort)
mapfile -t text_files < <(find base configs data docs kernels models scripts tests trainer .ci -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.[ch]pp' -o -name '*.md' -o -name '*.sh' -o -name '*.py' -o -name '*.yaml' -o -path '.ci/*' \) | sort
    find . -maxdepth 1 \( -name '*.md' -o -name Makefile -o -name '*.mk' -o -name .clang-format -o -name .gitignore \))

# ---- layers: the first pattern that fits a file says which headers it may include ----
layers='
^base/                     ^base/
^kernels/                  ^(base|kernels)/
^data/                     ^(base|data)/
^models/graph/             ^(base/|models/graph/|kernels/op[.]h$|kernels/tensor[.]h$)
^models/                   ^(base/|models/[a-z_0-9]+[.]h$|models/graph/graph[.]h$)
^trainer/                  ^(base|kernels/[a-z_]+[.]h$|kernels/ops|data|models|trainer)
^tests/emu/                ^((base|kernels|tests|trainer/comm)/|[a-z_]+[.]h(pp)?$)
^tests/                    ^(base|kernels|data|models|trainer|tests)/
'
# Vendor headers: the first pattern that fits a name says where alone it may be included. tests/emu stands for CUDA; its files may include
# what they stand for.
vendors='
^(dnnl|oneapi)             ^kernels/cpu/
^cuda_runtime_api[.]h$     ^(kernels/cuda/|tests/emu/|trainer/comm/comm_nccl[.]c$)
^(cuda|cudnn|cublas|nvrtc|nvml|cooperative_groups|cub/|thrust/)   ^(kernels/cuda/|tests/emu/)
^mpi                       ^trainer/comm/comm_mpi[.]c$
^nccl                      ^trainer/comm/comm_nccl[.]c$
^(jpeglib|jpegint|jerror|turbojpeg|spng|png|zlib)[.]h$   ^(data|tests)/
^yaml[.]h$                 ^(trainer|tests)/
'
awk -v layers="$layers" -v vendors="$vendors" '
    BEGIN {
        n = split(layers, f, /[ \n]+/)
        for (i = 2; i < n; i += 2) { layer[++nl] = f[i]; allowed[nl] = f[i + 1] }
        n = split(vendors, f, /[ \n]+/)
        for (i = 2; i < n; i += 2) { vendor[++nv] = f[i]; home[nv] = f[i + 1] }
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, part, "\"")
        for (i = 1; i <= nl; i++) if (FILENAME ~ layer[i]) break
        if (part[2] !~ allowed[i]) print FILENAME ":" FNR ": may not include \"" part[2] "\""
    }
    /^[ \t]*#[ \t]*include[ \t]*</ {
        split($0, part, /[<>]/)
        for (i = 1; i <= nv; i++) if (part[2] ~ vendor[i]) break
        if (i <= nv && FILENAME !~ home[i]) print FILENAME ":" FNR ": <" part[2] "> belongs to " home[i]
    }' "${c_files[@]}" > "$findings"
report "includes against the layers of the house"

# ---- every header compiles alone: those of kernels/cuda with CUDA's own headers where they are found, else with those of tests/emu ----
cuda_isystem=${CUDA_ISYSTEM:-}
emu_isystem='-isystem tests/emu -Wno-unknown-pragmas'
unchecked=0
for header in "${c_files[@]}"; do
    compiler=$CC language=c flags=${CPPFLAGS:--I. -D_GNU_SOURCE}
    case $header in
    *.cuh | *.hpp | tests/emu/*.h) compiler=${CXX:-g++} language=c++ flags="$emu_isystem -DCONVOY_EMU=1 $flags" ;;
    kernels/cuda/*.h) flags="$flags ${cuda_isystem:-$emu_isystem}" ;;
    *.h) ;;
    *) continue ;;
    esac
    said='fatal error: no compiler'
    if command -v "${compiler%% *}" > /dev/null; then
        # shellcheck disable=SC2086 # commands and flags are words
        said=$(echo "#include \"$header\"" | $compiler "-std=${language}17" -Wall -Wextra -fsyntax-only $flags -x "$language" - 2>&1)
    fi
    if grep -qE 'fatal error: (no compiler|(cudnn|cublas)[^ ]*: No such file)' <<< "$said"; then
        ((unchecked += 1))
    else
        grep -E 'error|warning' <<< "$said" | sed "s|^|$header: |" >> "$findings"
    fi
done
report "headers that do not compile alone"
((unchecked == 0)) || echo "lint: $unchecked headers need a C++ compiler or cuDNN's headers, which are not here: not checked"

# ---- words with one home: pattern (on text without comments and strings), where it may stand, why ----
words='
(^|[^A-Za-z0-9_])exit[ ]*[(]|^(trainer/main[.]c|tests/)|only main.c ends the program
(^|[^A-Za-z0-9_])abort[ ]*[(][)]|^(base/status[.]c|tests/)|ASSERT aborts
(^|[^A-Za-z0-9_])_[eE]xit[ ]*[(]|^(trainer/comm/|trainer/guard/(rank_watchdog|signals)[.]c|base/child[.]c|trainer/main[.]c|tests/)|only the watchdog leaves without cleaning up, and a fork that cannot exec
(^|[^A-Za-z0-9_])(v?printf|puts|putchar)[ ]*[(]|^(base/log[.]c|tests/)|log.h prints
(stdout|stderr)([^A-Za-z0-9_]|$)|^(base/log[.]c|tests/)|log.h prints
(^|[^A-Za-z0-9_])(getenv|setenv|putenv)[ ]*[(]|^(trainer/main[.]c|trainer/comm/comm[.]c|tests/)|main.c reads the environment, comm.c finds its launcher there
(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup|free)[ ]*[(]|^(base/mem[.]c|tests/tools/)|mem.h allocates
(^|[^A-Za-z0-9_])(atoi|atol|atoll|atof|strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)[ ]*[(]|^$|unchecked; see base/str.h
'
awk -v words="$words" '
    BEGIN {
        n = split(words, line, "\n")
        for (i = 1; i <= n; i++) {
            if (line[i] == "") continue
            # The last two bars of a line divide it: patterns have bars of their own, so count from a marker.
            match(line[i], /[|]\^/)
            pattern[++count] = substr(line[i], 1, RSTART - 1)
            rest = substr(line[i], RSTART + 1)
            cut = length(rest)
            while (substr(rest, cut, 1) != "|") cut--
            home[count] = substr(rest, 1, cut - 1)
            why[count] = substr(rest, cut + 1)
        }
    }
    # Takes comments, strings and character constants out of a line; in_comment lives from line to line.
    function code_of(s,   out, c, two, quote) {
        out = ""
        while (s != "") {
            c = substr(s, 1, 1); two = substr(s, 1, 2)
            if (in_comment) {
                if (two == "*/") { in_comment = 0; s = substr(s, 3) } else s = substr(s, 2)
            } else if (quote != "") {
                if (c == "\\") s = substr(s, 3)
                else { if (c == quote) quote = ""; s = substr(s, 2) }
            } else if (two == "/*") { in_comment = 1; s = substr(s, 3) }
            else if (two == "//") s = ""
            else if (c == "\"" || c == "\047") { quote = c; s = substr(s, 2) }
            else { out = out c; s = substr(s, 2) }
        }
        return out
    }
    FNR == 1 { in_comment = 0 }
    {
        code = code_of($0)
        if (code == "") next
        for (i = 1; i <= count; i++)
            if (code ~ pattern[i] && FILENAME !~ home[i]) print FILENAME ":" FNR ": " why[i] ": " $0
    }' "${c_files[@]}" > "$findings"
report "words outside their one home"

# ---- form ----
awk '
    FNR == 1 && NR > 1 && blank_end != "" { print blank_end }
    { blank_end = $0 == "" ? FILENAME ":" FNR ": blank line at the end" : "" }
    FILENAME !~ /(Makefile|[.]mk)$/ && /\t/ { print FILENAME ":" FNR ": tab" }
    /[ \t]$/ { print FILENAME ":" FNR ": trailing blank" }
    /\r/ { print FILENAME ":" FNR ": carriage return" }
    FILENAME !~ /lint[.]sh$/ && /(TODO|FIXME)/ { print FILENAME ":" FNR ": unfinished work is an issue, not a comment" }
    FILENAME ~ /[.]([ch]|cuh?|[ch]pp)$/ && length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns" }
    END { if (blank_end != "") print blank_end }' "${text_files[@]}" > "$findings"
for file in "${text_files[@]}"; do
    [[ -s $file && -n $(tail -c 1 "$file") ]] && echo "$file: no newline at the end" >> "$findings"
done
report "form of the text"

# ---- clang-format: versions disagree with each other, so only the one the style was written with decides ----
version=$(clang-format --version 2> /dev/null | sed -nE 's/.*version ([0-9]+).*/\1/p')
if [[ $version == 14 ]]; then
    clang-format --dry-run "${c_files[@]}" 2>&1 | sed -nE 's/^([^:]+:[0-9]+):[0-9]+: .*-Wclang-format-violations.*/\1: differs; see make format/p' |
        awk -F: '!seen[$1]++' > "$findings" # the first one of each file says enough
    report "clang-format"
else
    echo "lint: clang-format 14 is not installed${version:+ (found $version)}: layout not checked"
fi

# ---- for a reader, not a verdict: the longest files ----
wc -l "${c_files[@]}" | awk '$2 != "total" && $1 > 600 { print "lint: note: " $2 " has " $1 " lines" }'

echo "$passed passed, $failed failed"
((failed == 0))
