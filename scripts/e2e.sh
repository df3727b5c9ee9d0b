#!/usr/bin/env bash
# e2e.sh [SCRIPT...] - runs tests/e2e/*.sh (or those named), each in the repository root, each with
# a time limit and a scratch folder.
#
# A script passes if it ends with status 0. It finds in the environment: CONVOY (the program),
# SCRATCH (an empty folder of its own; removed if it passes). What it prints is shown only if it
# fails, but for lines "not tested: WHAT: WHY". Status 77: it cannot run here, its last line says
# why; it counts as neither. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# Open MPI refuses root, refuses more ranks than cores, and binds one or two ranks to a core each,
# unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# Open MPI 5 knows these by other names.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    PRTE_MCA_hwloc_default_binding_policy=none
export CONVOY=${CONVOY:-$PWD/convoy}

limit_s=${E2E_LIMIT_S:-300}
shopt -s nullglob
scripts=("$@")
((${#scripts[@]})) || scripts=(tests/e2e/*.sh)
root=build/e2e-$$
passed=0 failed=0
for script in "${scripts[@]}"; do
    name=$(basename "$script" .sh)
    export SCRATCH=$PWD/$root/$name
    mkdir -p "$SCRATCH"
    start=$SECONDS
    timeout --kill-after=10 "$limit_s" bash "$script" > "$root/$name.out" 2>&1 < /dev/null
    status=$?
    if ((status == 0)); then
        echo "ok   $name ($((SECONDS - start)) s)"
        grep '^not tested: ' "$root/$name.out" | sort -u | sed 's/^/     /'
        rm -rf "$SCRATCH" "$root/$name.out"
        ((passed += 1))
        continue
    fi
    if ((status == 77)); then
        echo "skip $name: $(tail -n 1 "$root/$name.out")"
        rm -rf "$SCRATCH" "$root/$name.out"
        continue
    fi
    ((status == 124 || status == 137)) && what="took longer than $limit_s s" ||
        what="status $status"
    echo "FAIL $name: $what; its files are in $root/$name"
    sed 's/^/  /' "$root/$name.out"
    ((failed += 1))
done
rmdir "$root" 2> /dev/null
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))
