#!/usr/bin/env bash
# accumulate.sh - train.accumulate as a list: steps have the micro-batches of the epoch in which
# they begin, whatever the ranks, and a run goes on where it was stopped.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 8 2
make_config

# 80 images: 5 steps of 16, then from image 80 on 3 of 32, then from image 176 on steps of 8.
list=(train.epochs=4 "train.accumulate=4, 8, 2" train.batch_per_rank=4 model.bn=frozen
    schedule.name=constant schedule.warmup_epochs=0 optimizer.lr_scaling=none optimizer.lr=0.002
    log.every=1 "data.val=$SCRATCH/data/val" checkpoint.keep=40)
train whole 1 "${list[@]}"
expect_text "batches" 1 "from step 1 on, the global batch is 16 images, 4 per rank and pass"
expect_text "batches" 1 "from step 6 on, the global batch is 32"
expect_text "batches" 1 "from step 9 on, the global batch is 8"
steps=$((5 + 3 + (320 - 176) / 8))
[[ $(losses whole | wc -l) == "$steps" ]] ||
    broken "the run has $(losses whole | wc -l) steps, expected $steps"
expect_field "a step's place" whole step epochs 4
run 1 report "$SCRATCH/whole" --out "$SCRATCH/report.html" > "$out" 2>&1 ||
    broken_run "no report of steps of several sizes"

# The first phase is a run of its own, and no image is seen twice or passed over: a run that
# begins the second one where the first ended is the same.
train apart 1 "${list[@]}" train.accumulate=4 train.max_steps=5
cmp -s <(losses whole | head -5) <(losses apart) || broken "the first epoch is another"
train grow 1 "${list[@]}" "train.accumulate=4, 8" train.epochs=2.2
train grow_apart 1 "${list[@]}" train.accumulate=8 train.max_steps=3
cmp -s <(losses grow | sed -n 6p) <(losses grow_apart | sed -n 1p) &&
    broken "the second epoch begins with the first one's images"

# Stopped within a phase, at an end, right behind one.
for steps in 3 5 6 8 14 26; do train parts 1 "${list[@]}" "train.max_steps=$steps"; done
same "in one piece and in six" whole parts
expect "eval" 0 run 1 eval "$SCRATCH/whole" --checkpoint "$(latest whole)"
expect_text "eval of such a run" 1 "epoch 4 step 26 eval"

# Micro-batches of other sizes, of other ranks; a phase without any has programs of its own.
train wide 1 "${list[@]}" "train.accumulate=2, 4, 1" train.batch_per_rank=8
near "micro-batches of 4 and of 8" whole wide 1e-4
if have_mpi; then
    train two 2 "${list[@]}" "train.accumulate=2, 4, 1"
    near "one rank and two" whole two 1e-4
    train four 4 "${list[@]}" "train.accumulate=2, 4, 1" train.batch_per_rank=2
    near "one rank and four" whole four 1e-4
fi

# Another list takes over at the image where the run stands.
train parts 1 "${list[@]}" "train.accumulate=4, 1" train.max_steps=0 train.epochs=5
expect_text "another list" 1 "step 26 of the checkpoint is now step"

settings whole "${list[@]}"
expect "inspect config" 0 run 1 inspect config "${sets[@]}"
expect_text "inspect config" 1 " 32 images: per rank 8 micro-batches of 4, from step 6"
expect_text "inspect config" 1 "steps            26,"
expect "bench step" 0 run 1 bench step "${sets[@]}" --steps 2
train_fails bad 64 "optimizer.lr_scaling: linear and sqrt depend on the global batch" 1 \
    "${list[@]}" optimizer.lr_scaling=linear

exit "$failed"
