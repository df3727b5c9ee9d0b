#!/usr/bin/env bash
# handshake.sh - ranks that are not one program, were not given the same settings, or do not all
# come: one line says which, and nobody waits beyond watchdog.start_s.
source tests/e2e/lib/common.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
no_grace
make_data "$SCRATCH/data" 4 1
make_config

# together RUN KEY=VALUE... - one rank of each of the arrays `first` and `second`; convoy in them
# becomes its command line.
together()
{
    local run=$1 ours
    settings "$@"
    ours=("$CONVOY" train "${sets[@]}")
    [[ ${first[0]} == convoy ]] && first=("${ours[@]}")
    [[ ${second[0]} == convoy ]] && second=("${ours[@]}" "${second[@]:1}")
    [[ ${second[0]} == "$SCRATCH"/* ]] && second+=("${ours[@]:1}")
    mpirun -n 1 "${first[@]}" : -n 1 "${second[@]}" > "$SCRATCH/$run.out" 2>&1 &
    pid=$!
}

# ended RUN CODE - with it, and before the run folder was begun.
ended()
{
    wait_to_end 20
    cp "$SCRATCH/$1.out" "$out"
    ((code == $2)) || broken_run "$1: exit code $code, expected $2"
    [[ ! -e $SCRATCH/$1 ]] || broken "$1: has begun a run folder"
}

here=$(hostname)
late="MPI did not start within 3 s (watchdog.start_s)"
first=(convoy) second=(sleep 25)
together other watchdog.start_s=3
ended other 76
expect_one_error "a peer that knows nothing of MPI" "rank 0 on $here: $late"
first=(sleep 25) second=(convoy)
together first watchdog.start_s=3
ended first 76
expect_one_error "rank 0 knows nothing of MPI" "rank 1 on $here: $late"

first=(convoy) second=(sleep 25)
together asked
wait_for_ranks 2
wait_for_handlers "${processes[0]}"
sleep 0.5
kill -TERM "${processes[0]}"
ended asked 75
expect_text "asked while MPI starts" 1 "stopped on request while MPI was starting"

# Another release of convoy, by the name that it bears.
version=$("$CONVOY" --version | sed -n '1s/^convoy \([^ ]*\).*/\1/p')
LC_ALL=C sed "s/${version//./\\.}/9${version:1}/g" "$CONVOY" > "$SCRATCH/other-convoy"
chmod +x "$SCRATCH/other-convoy"
first=(convoy) second=("$SCRATCH/other-convoy")
together version
ended version 78
expect_one_error "another version" "rank 1: $here runs convoy 9${version:1}"
expect_one_error "another version" "but rank 0 on $here runs convoy $version"

first=(convoy) second=(convoy --set optimizer.lr=0.3 --set log.every=7)
together setting
ended setting 64
expect_one_error "other settings" "rank 1: the configuration on $here differs from that of rank 0"
expect_one_error "other settings" ": optimizer.lr is 0.3; log.every is 7"
exit "$failed"
