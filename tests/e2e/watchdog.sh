#!/usr/bin/env bash
# watchdog.sh - a rank that hangs by itself, with no peer to miss it, ends with 76 and says in which
# step and phase; each phase has a limit of its own.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 13
make_config

# hang PHASE FILES KEY=VALUE... - where opening or reading files whose path holds FILES does not
# return, as on a file system whose server is gone.
hang()
{
    local phase=$1
    SLOW_FILES_MATCH=$2 SLOW_FILES_MS=600000 LD_PRELOAD=$PWD/build/slow_files.so \
        train_in_background "$phase" 1 "watchdog.${phase}_s=2" "${@:3}"
    wait_to_end 60
    cp "$SCRATCH/$phase.out" "$out"
    ((code == 76)) || broken_run "$phase: exit code $code, expected 76"
    expect_one_error "$phase" "no progress within watchdog.${phase}_s"
    expect_text "$phase" some "rank 0 on $(hostname): no progress for 2."
    grep -q "\"phase\":\"$phase\"" "$SCRATCH/$phase/hang-0.json" ||
        broken "$phase: hang-0.json does not name the phase"
    grep -q '"stack":\[.*"train_with_log+0x' "$SCRATCH/$phase/hang-0.json" ||
        broken "$phase: hang-0.json does not say where the main thread was"
}

# blocked - a run whose output nobody reads. Beside the others:
# what is stuck is given up after ten seconds.
blocked()
{
    settings blocked log.format=json log.every=1 train.epochs=100000 watchdog.step_s=2
    ("$CONVOY" train "${sets[@]}" 2> "$SCRATCH/blocked.out"; echo $? > "$SCRATCH/blocked.code") |
        until [[ -s $SCRATCH/blocked.code ]]; do sleep 0.2; done
}
blocked &
output=$!

hang start /index/
hang step ring/0003.jp train.epochs=100 # which the first steps do not need
# which the training set does not have, and is none of those that the start reads
hang evaluation circle/0012.jp "data.val=$SCRATCH/data/val"
hang checkpoint /checkpoints/
expect_field "step" step "done" code 76

# Of two ranks the peer gives up first, and the one that hangs is asked to leave;
# it says where it is all the same.
if have_mpi; then
    cat > "$SCRATCH/one_hangs" << END
#!/bin/bash
((\$OMPI_COMM_WORLD_RANK == 1)) && export LD_PRELOAD=$PWD/build/slow_files.so
exec $CONVOY "\$@"
END
    chmod +x "$SCRATCH/one_hangs"
    # Open MPI leaves it a second by default, which a busy machine may use up.
    export OMPI_MCA_odls_base_sigkill_timeout=5
    SLOW_FILES_MATCH=ring/0003.jp SLOW_FILES_MS=600000 CONVOY=$SCRATCH/one_hangs \
        train_in_background guilty 2 train.epochs=100 comm.timeout_s=3
    wait_to_end 60
    cp "$SCRATCH/guilty.out" "$out"
    ((code == 76)) || broken_run "guilty: exit code $code, expected 76"
    expect_text "guilty" some "rank 1 on $(hostname): no progress for"
    expect_text "guilty" some "no progress when a peer timed out; see hang-1.json"
    for rank in 0 1; do
        grep -q '"stack":\[.*"train_with_log+0x' "$SCRATCH/guilty/hang-$rank.json" ||
            broken "guilty: hang-$rank.json does not say where the main thread was"
    done
fi

wait "$output"
cp "$SCRATCH/blocked.out" "$out"
[[ $(< "$SCRATCH/blocked.code") == 76 ]] ||
    broken_run "output that nobody reads: exit code $(< "$SCRATCH/blocked.code"), expected 76"
expect_one_error "output that nobody reads" "no progress within watchdog.step_s"
grep -q '"phase":"step"' "$SCRATCH/blocked/hang-0.json" ||
    broken "output that nobody reads: no hang-0.json"
exit "$failed"
