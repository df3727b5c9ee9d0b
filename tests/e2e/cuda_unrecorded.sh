#!/usr/bin/env bash
# cuda_unrecorded.sh - a step that cannot be captured, or not made a graph of, is launched kernel by
# kernel after one warning, with the results of a run that never tried; on all ranks at once.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
emulated || { echo "faults are the emulated device's" && exit 77; }
make_tiny_config
sed -i 's/max_steps: 6/max_steps: 5/' "$SCRATCH/small.yaml"

warning="cannot be recorded as a CUDA graph (device.cuda_graph)"
train eager 1 device.cuda_graph=false
expect_text "not asked for" 0 "$warning"
train recorded 1
expect_text "nothing wrong" 0 "$warning"

# An engine that spoils the capture and says nothing of it.
CONVOY_EMU_SPOILS=convolution train spoiled 1
expect_text "a spoiled capture" 1 "convoy train: warning: a training step $warning"
expect_text "who spoiled it" 1 "one by one: conv1: it does something that cannot be captured"
same "a spoiled capture" eager spoiled
[[ $(losses eager) == "$(losses spoiled)" ]] || broken "a spoiled capture: the losses differ"

CONVOY_EMU_SPOILS=instantiate train refused 1
expect_text "no room for the graph" 1 "convoy train: warning: a training step $warning"
expect_text "no room for the graph" 1 "cudaGraphInstantiate"
same "no room for the graph" eager refused

# One of two ranks cannot record: neither replays.
if have_mpi; then
    export CONVOY_EMU_OWN_DEVICES=1
    # spoil_one RUN KEY=VALUE... - the second rank's convolutions cannot be captured.
    spoil_one()
    {
        settings "$@"
        # shellcheck disable=SC2016 # each rank expands it
        expect "one rank of two" 0 timeout --kill-after=5 120 mpirun -n 2 bash -c '
            ((OMPI_COMM_WORLD_RANK == 1)) && export CONVOY_EMU_SPOILS=convolution
            exec "$@"' rank "$CONVOY" train "${sets[@]}"
    }
    train eager_ranks 2 device.cuda_graph=false
    spoil_one spoiled_rank
    expect_text "one rank of two" 1 "convoy train: warning: a training step $warning"
    expect_text "which rank" 1 "one by one: rank 1: conv1: it does something that cannot be"
    same "one rank of two" eager_ranks spoiled_rank
    # Micro-batches have no sums: each rank goes its own way in them, and no other in the last one.
    # Programs that have both are those of lists.
    for micro in 3 "2, 1"; do
        batches=(train.batch_per_rank=2 "train.accumulate=$micro" data.synthetic_images=16
            train.epochs=3 train.max_steps=9)
        train eager_micro 2 "${batches[@]}" device.cuda_graph=false checkpoint.resume=none
        spoil_one spoiled_micro "${batches[@]}" checkpoint.resume=none
        expect_text "micro-batches of one rank of two" some "a batch $warning"
        expect_text "micro-batches of one rank of two" some "a training step $warning"
        same "micro-batches of one rank of two: $micro" eager_micro spoiled_micro
        rm -rf "$SCRATCH/eager_micro" "$SCRATCH/spoiled_micro"
    done
    # The sum itself, which a communicator might not survive: it is not asked for any more.
    CONVOY_EMU_SPOILS="sum over ranks" train spoiled_sum 2
    expect_text "a sum" 1 "convoy train: warning: a training step $warning"
    same "a sum" eager_ranks spoiled_sum
fi
exit "$failed"
