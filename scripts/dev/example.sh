#!/usr/bin/env bash
# example.sh EXAMPLE BUILD - runs build/example on a few generated images, alone and, where there is
# MPI, as two ranks: it trains, stops itself, and goes on with a second engine; and on a folder that
# is not there. The last line is "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
source scripts/tally.sh
example=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMP_NUM_THREADS=1 HWLOC_PLUGINS_PATH=none
"$build/make_shapes" "$scratch/shapes" --train 40 --val 20 > /dev/null || exit 1

# try NAME COMMAND... - the run ends, has counted its steps and evaluated, and says nothing wrong
try() {
    local name=$1
    shift
    if "$@" > "$scratch/said" 2>&1 &&
        grep -Eq '^convoy .*: 6 \+ [1-9][0-9]* steps, .*, top-1 [0-9.]+ %$' "$scratch/said" &&
        ! grep -qi "error" "$scratch/said" && [[ -f ${*: -1}/config.yaml ]]; then
        echo "example: $name: $(tail -n 1 "$scratch/said")"
        ((passed += 1))
    else
        echo "example: $name failed:"
        sed 's/^/  /' "$scratch/said"
        ((failed += 1))
    fi
}

try "one rank" "$example" "$scratch/shapes" "$scratch/one"
if [[ -f $build/libconvoy_mpi_ompi.so && $(mpirun --version 2>&1) == *'Open MPI'* ]]; then
    flags=(--oversubscribe --bind-to none)
    [[ $(id -u) != 0 ]] || flags+=(--allow-run-as-root)
    # Open MPI does not give back all that it takes; what the engine takes, one rank has shown.
    try "two ranks" env ASAN_OPTIONS=detect_leaks=0 mpirun -n 2 "${flags[@]}" \
        "$example" "$scratch/shapes" "$scratch/two"
else
    tally_skip "example.two_ranks" "no mpirun of Open MPI, or built without it"
fi
missing=$scratch/missing
if "$example" "$missing" "$scratch/three" > "$scratch/said" 2>&1 || [[ $? != 65 ]] ||
    ! grep -qF "$missing/train" "$scratch/said"; then
    echo "example: data that is not there:"
    sed 's/^/  /' "$scratch/said"
    ((failed += 1))
else
    ((passed += 1))
fi
tally_end
