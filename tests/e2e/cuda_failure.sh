#!/usr/bin/env bash
# cuda_failure.sh - a rank whose images vanish in the middle of a run takes part in the step to its
# end, and all ranks leave together with its message: where the devices sum inside recorded steps,
# and where the host sums.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
if ! have_mpi; then
    echo "this convoy has no MPI"
    exit 77
fi
make_data "$SCRATCH/data" 12 1
make_tiny_config
no_grace
cat > "$SCRATCH/own_data" << 'END'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}
exec "$REAL" "$@" --set "data.train=$DATA$rank/train"
END
chmod +x "$SCRATCH/own_data"
export REAL=$CONVOY

# vanish NAME KEY=VALUE... - rank 1 loses its images behind step 5.
vanish()
{
    local name=$1
    shift
    export DATA=$SCRATCH/$name
    cp -r "$SCRATCH/data" "${DATA}0"
    cp -r "$SCRATCH/data" "${DATA}1"
    CONVOY=$SCRATCH/own_data train_in_background "$name" 2 data.format=imagefolder \
        train.batch_per_rank=2 data.read_ahead_mb=0.05 train.epochs=99 train.max_steps=0 "$@"
    wait_for_step "$name" 5
    rm -r "${DATA}1"
    wait_to_end 100
    cp "$SCRATCH/$name.out" "$out"
    [[ $code == 65 ]] || broken_run "$name: exit code $code, expected 65"
    expect_one_error "$name" "rank 1: "
    expect_field "$name" "$name" "done" code 65
}

vanish staged
emulated || { echo "not tested: NCCL between ranks: wants the emulated device" && exit "$failed"; }
export CONVOY_EMU_OWN_DEVICES=1
vanish devices
vanish accumulated train.accumulate=2
vanish scaled train.precision=fp16
vanish norms model.bn=sync train.accumulate=3
exit "$failed"
