#!/usr/bin/env bash
# sync_norm.sh - batch norm over ranks (model.bn: sync): weights do not depend on how a batch is
# split over ranks, groups of ranks are what they say, a run resumes bit for bit, and a rank that
# fails or hangs within a step leaves nobody waiting.
source tests/e2e/lib/common.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
no_grace
make_data "$SCRATCH/data" 12 2
make_config
# Rounding moves an element over the kink of a ReLU now and then, which gradients show: compared are
# losses. (tests/unit/models/test_norm_sums.c compares gradients, without rounding.)
steps=(train.max_steps=2 schedule.name=constant train.batch_per_rank=16)
sync=("${steps[@]}" model.bn=sync)

# One rank's batch is all there is: the same as train.
train whole 1 "${steps[@]}"
train alone 1 "${sync[@]}"
same "sync on one rank" whole alone

train two 2 "${sync[@]}" train.batch_per_rank=8
train four 4 "${sync[@]}" train.batch_per_rank=4
train apart 2 "${steps[@]}" train.batch_per_rank=8
follows "1 x 16 and 2 x 8" whole two 3e-5
follows "1 x 16 and 4 x 4" whole four 3e-5
unlike "without sync" whole apart 1e-3

# Groups: two of two ranks are not one of four, a group of one rank is a norm by itself, a group of
# all is what there is without the key.
train pairs 4 "${sync[@]}" train.batch_per_rank=4 model.bn_group=2
unlike "groups of two" four pairs 1e-3
train all 4 "${sync[@]}" train.batch_per_rank=4 model.bn_group=4
same "one group" four all
train ones 2 "${sync[@]}" train.batch_per_rank=8 model.bn_group=1
same "groups of one" apart ones

# Each micro-batch has statistics of its own, over ranks.
train micro 2 "${sync[@]}" train.batch_per_rank=4 train.accumulate=2
train micro_again 2 "${sync[@]}" train.batch_per_rank=4 train.accumulate=2
same "accumulated, again" micro micro_again
unlike "accumulated" two micro 1e-3

# Resume, with groups too; what shared statistics may not change.
train halves 4 "${sync[@]}" train.batch_per_rank=4 model.bn_group=2 train.max_steps=1
train halves 4 "${sync[@]}" train.batch_per_rank=4 model.bn_group=2
same "resumed" pairs halves
train_fails halves 64 \
    "model.bn_group: 8 images shared statistics in the checkpoint's run, now 16" 2 \
    "${sync[@]}" train.max_steps=3 train.batch_per_rank=8 model.bn_group=2

# A network that has no statistics of its own batch: one image a rank.
one=(model.name=efficientnet_b0 train.batch_per_rank=1 train.max_steps=2)
train_fails small 64 "batch norm cannot train on one value per channel" 1 "${one[@]}"
train small 2 "${one[@]}" model.bn=sync

# A rank whose images vanish takes part in every sum of the step, also of one in two passes, and all
# leave with its message.
cat > "$SCRATCH/own_data" << 'END'
#!/usr/bin/env bash
exec "$REAL" "$@" --set "data.train=$DATA${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}/train"
END
chmod +x "$SCRATCH/own_data"
export REAL=$CONVOY
for key in train.accumulate=1 train.accumulate=3 optimizer.sam_rho=0.1; do
    name=vanish_$key
    export DATA=$SCRATCH/$name
    cp -r "$SCRATCH/data" "${DATA}0"
    cp -r "$SCRATCH/data" "${DATA}1"
    CONVOY=$SCRATCH/own_data train_in_background "$name" 2 model.bn=sync train.batch_per_rank=2 \
        "$key" data.read_ahead_mb=0.05 train.epochs=999
    wait_for_step "$name" 5
    rm -r "${DATA}1"
    wait_to_end 60
    cp "$SCRATCH/$name.out" "$out"
    [[ $code == 65 ]] || broken_run "$name: exit code $code, expected 65"
    expect_one_error "$name" "rank 1: "
    expect_field "$name" "$name" "done" code 65
done

# One that hangs is missed in the first sum, and the watchdog says in which.
cat > "$SCRATCH/one_hangs" << END
#!/usr/bin/env bash
((\$OMPI_COMM_WORLD_RANK == 1)) && export LD_PRELOAD=$PWD/build/slow_files.so
exec $CONVOY "\$@"
END
chmod +x "$SCRATCH/one_hangs"
SLOW_FILES_MATCH=ring/0003.jp SLOW_FILES_MS=600000 CONVOY=$SCRATCH/one_hangs \
    train_in_background hang 2 model.bn=sync train.epochs=100 comm.timeout_s=3
wait_to_end 60
cp "$SCRATCH/hang.out" "$out"
((code == 76)) || broken_run "hang: exit code $code, expected 76"
expect_text "hang" some "operation sums of norms: a peer was lost or hangs"

# One process tells of a run of many ranks.
told=(model.bn=sync train.batch_per_rank=1 data.image_size=32 --images 1000 --ranks 4)
for group in 0 2; do
    expect "a group of $group" 0 run 1 inspect config model.name=efficientnet_b0 \
        "model.bn_group=$group" "${told[@]}"
    expect_text "a group of $group" 1 "GiB per rank"
done
expect_error "told of three" 64 "model.bn_group: 4 ranks cannot be divided into groups of 3" 1 \
    inspect config model.name=efficientnet_b0 model.bn_group=3 "${told[@]}"
expect "the memory of one of two" 0 run 1 inspect memory "$SCRATCH/small.yaml" model.bn=sync \
    model.bn_group=2

# Wrong keys.
train_fails wrong 64 "model.bn_group: 2 ranks cannot be divided into groups of 3" 2 "${sync[@]}" \
    model.bn_group=3
train_fails wrong 64 "model.bn_group requires model.bn: sync" 1 model.bn_group=2
exit "$failed"
