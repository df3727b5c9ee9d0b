#!/usr/bin/env bash
# comm.sh - communication between ranks: exact results with 1 to 4 ranks, agreement on an error,
# device memory where there is a GPU, and the watchdog on a rank that hangs.
set -uo pipefail
check=${COMMCHECK:-${CONVOY_TOOLS:-build}/make_commcheck}
failed=0

# expect WHAT RC COMMAND... - runs the command; its output stays in $SCRATCH/out.
expect()
{
    local what=$1 want=$2 got
    shift 2
    timeout --kill-after=5 120 "$@" > "$SCRATCH/out" 2>&1
    got=$?
    ((got == want)) && return
    echo "$what: exit code $got, expected $want"
    cat "$SCRATCH/out"
    failed=1
}

# expect_text WHAT COUNT TEXT - lines of the last output that hold TEXT; COUNT may be "some".
expect_text()
{
    local what=$1 want=$2 lines
    lines=$(grep -cF -- "$3" "$SCRATCH/out")
    [[ $want == some && $lines -gt 0 ]] && return
    [[ $want == "$lines" ]] && return
    echo "$what: '$3' is on $lines lines, expected $want"
    cat "$SCRATCH/out"
    failed=1
}

expect "alone" 0 "$check" all
expect_text "alone" 1 "1 ranks by self"
if [[ $(OMPI_COMM_WORLD_SIZE=1 "$check" agree 2>&1) == *"requires Open MPI; "* ]]; then
    echo "not tested: several ranks: built without Open MPI"
    exit "$failed"
fi

for ranks in 1 2 3 4; do
    expect "all, $ranks ranks" 0 mpirun -n "$ranks" "$check" all
    expect_text "all, $ranks ranks" 1 "$ranks ranks by mpi"
done

expect "agree" 65 mpirun -n 3 "$check" agree
expect_text "agree" some "rank 2: no such folder: of-this-rank"

# With a GPU (or its test double): sums of its memory, alone and by two ranks.
if "$check" device > "$SCRATCH/out" 2>&1 || (($? != 78)); then
    expect "device" 0 "$check" device
    expect "device, 2 ranks" 0 mpirun -n 2 "$check" device
else
    echo "not tested: device memory: $(tail -n 1 "$SCRATCH/out")"
fi

begin_s=$SECONDS
expect "hang" 76 mpirun -n 3 "$check" hang
expect_text "hang" some "in step 41 (backward), operation bucket 7: a peer was lost or hangs"
((SECONDS - begin_s < 20)) || {
    echo "hang: took $((SECONDS - begin_s)) s, timeout is 2 s"
    failed=1
}
exit "$failed"
