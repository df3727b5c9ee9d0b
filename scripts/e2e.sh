#!/usr/bin/env bash
# e2e.sh [SCRIPT...] - runs tests/e2e/*.sh (or those named), each in the repository root, each with
# a time limit and a scratch folder, two more at a time than there are cores: most of them wait for
# most of their time.
#
# A script passes if it ends with status 0. It finds in the environment: CONVOY (the program),
# SCRATCH (an empty folder of its own; removed if it passes). What it prints is shown only if it
# fails, but for lines "not tested: WHAT: WHY". Each of those is a skip, and so is status 77: the
# script cannot run here, its last line says why. One with a line "# first: WHY" is begun before the
# others; one with "# alone: WHY" runs after them, with nothing beside it. The last line is
# "N passed, N failed, N skipped".
#
#   E2E_JOBS=N       how many at a time
#   E2E_LIMIT_S=300  how long one may take
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
source scripts/tally.sh

# Open MPI refuses root, refuses more ranks than cores, and binds one or two ranks to a core each,
# unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# Open MPI 5 knows these by other names.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    PRTE_MCA_hwloc_default_binding_policy=none
export CONVOY=${CONVOY:-$PWD/convoy}

# The tests speak to Open MPI's mpirun, which need not be the one that is found first.
if [[ $(mpirun --version 2>&1) != *'Open MPI'* ]] && command -v mpirun.openmpi > /dev/null; then
    mkdir -p build/openmpi && ln -sf "$(command -v mpirun.openmpi)" build/openmpi/mpirun
    export PATH=$PWD/build/openmpi:$PATH
fi

limit_s=${E2E_LIMIT_S:-300} jobs=${E2E_JOBS:-$(($(nproc) + 2))}
((jobs >= 1)) || jobs=1
shopt -s nullglob
scripts=("$@")
((${#scripts[@]})) || scripts=(tests/e2e/*.sh)
root=build/e2e-$$
mkdir -p "$root" || exit 74

# run_script SCRIPT - what runs in the background would ignore signals that scripts send.
run_script() {
    local name out start=$SECONDS status what
    name=$(basename "$1" .sh)
    until mkdir "$root/$name" 2> /dev/null; do name+=+; done # the same one beside it
    out=$root/$name.out
    export SCRATCH=$PWD/$root/$name
    env --default-signal=HUP,INT,QUIT timeout --kill-after=10 "$limit_s" bash "$1" \
        > "$out" 2>&1 < /dev/null &
    # shellcheck disable=SC2064 # this process, now
    trap "kill $!" TERM
    wait $!
    status=$?
    what="status $status"
    if ((status == 77)) && [[ ! -s $out || -e $SCRATCH/broken ]]; then
        status=1 what="skipped without a reason, or after something was broken"
    fi
    case $status in
    0)
        echo "ok   $name ($((SECONDS - start)) s)"
        grep '^not tested: ' "$out" | sort -u | sed "s/^not tested: /skip $name, in part: /"
        ;;
    77) echo "skip $name: $(tail -n 1 "$out")" ;;
    *)
        ((status != 124 && status != 137)) || what="took longer than $limit_s s"
        echo "FAIL $name: $what; its files are in $root/$name"
        sed 's/^/  /' "$out"
        return 1
        ;;
    esac
    rm -rf "$SCRATCH" "$out"
    return "$status"
}

first=() others=() alone=()
for script in "${scripts[@]}"; do
    case $(grep -soEm 1 '^# (first|alone): ' "$script") in
    *first*) first+=("$script") ;;
    *alone*) alone+=("$script") ;;
    *) others+=("$script") ;;
    esac
done
tally_each "$jobs" run_script "${first[@]}" "${others[@]}"
tally_each 1 run_script "${alone[@]}"
rmdir "$root" 2> /dev/null
tally_end
