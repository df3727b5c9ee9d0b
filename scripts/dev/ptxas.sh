#!/usr/bin/env bash
# ptxas.sh [--table] LOG... - what ptxas said of every CUDA kernel, on every architecture that is
# built for: none may spill registers or keep arrays in local memory. One line per finding; the last
# line is "N passed, N failed, N skipped", where each kernel on each architecture counts once.
#
# Called by `make ptxas` with the logs that the build has kept.
# --table lists registers and shared memory of all kernels.
set -uo pipefail
# shellcheck source=scripts/tally.sh
source "$(dirname "$0")/../tally.sh"
table=0
if [[ ${1:-} == --table ]]; then
    table=1
    shift
fi
kernels=$(mktemp)
trap 'rm -f "$kernels"' EXIT
for log in "$@"; do
    source=${log#*/obj/}
    c++filt < "$log" | awk -v source="${source%.ptxas}" '
        /Compiling entry function/ { split($0, part, "\047"); kernel = part[2]; arch = part[4] }
        / bytes stack frame, / { frame = $1; spilled = $5 + $9 }
        /: Used [0-9]+ registers/ && kernel != "" {
            match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
            shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
            printf "%d\t%d\t%d\t%d\t%s: %s on %s\n",
                   spilled, frame, registers, shared, source, kernel, arch
            kernel = ""
        }' >> "$kernels"
done
if ((table)); then
    echo "registers  shared bytes  kernel"
    awk -F '\t' '{ printf "%9d  %12d  %s\n", $3, $4, $5 }' "$kernels"
fi
awk -F '\t' '$1 > 0 || $2 > 0 { print $5 ": " $1 " bytes spilled, " $2 " bytes of local memory" }' \
    "$kernels"
read -r passed failed < <(awk -F '\t' \
    '$1 > 0 || $2 > 0 { bad++ } END { print NR - bad, bad + 0 }' "$kernels")
if ((passed + failed == 0)); then
    echo "ptxas: no kernels found in: $*"
    failed=1
fi
tally_end
