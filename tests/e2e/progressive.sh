#!/usr/bin/env bash
# progressive.sh - data.progressive_sizes: every epoch has images of its size, whatever the ranks,
# and a run goes on where it was stopped.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 8 2
make_config

# 80 images: an epoch is 10 steps on one rank.
grow=(train.epochs=3 "data.progressive_sizes=16, 24" "data.progressive_until=1, 2"
    schedule.name=constant log.every=1
    "data.val=$SCRATCH/data/val")
train whole 1 "${grow[@]}"
expect_text "sizes" 1 "from step 1 on, training images have 16 pixels"
expect_text "sizes" 1 "from step 11 on, training images have 24 pixels"
expect_text "sizes" 1 "from step 21 on, training images have 32 pixels"
[[ $(losses whole | wc -l) == 30 ]] ||
    broken "the run has $(losses whole | wc -l) steps, expected 30"

# The first epoch is that of a run with small images, and only the first.
train small 1 "${grow[@]}" "data.progressive_sizes=[]" "data.progressive_until=[]" \
    data.image_size=16 train.epochs=2
apart=$(join <(losses whole) <(losses small) |
    awk '{ d = $2 - $3; if (d < 0) d = -d; if (d > 1e-3 * $3) print $1 }' | head -1)
[[ $apart == 11 ]] ||
    broken "images of 16 pixels: the losses part at step ${apart:-none}, expected 11"

# Stopped within a size, at its end, and where nothing changes.
for steps in 4 10 17 30; do train parts 1 "${grow[@]}" "train.max_steps=$steps"; done
same "in one piece and in four" whole parts

# Two ranks share each global batch; micro-batches have programs of their own.
have_mpi && train two 2 "${grow[@]}" train.batch_per_rank=4 model.bn=frozen
train one 1 "${grow[@]}" model.bn=frozen
train micro 1 "${grow[@]}" train.batch_per_rank=4 train.accumulate=2 model.bn=frozen
have_mpi && near "one rank and two" one two 1e-4
near "one micro-batch and two" one micro 1e-4

# data.train_size: training is that of a run with small images, evaluation that of one with large.
cut=("${grow[@]}" "data.progressive_sizes=[]" "data.progressive_until=[]" train.max_steps=12
    model.stochastic_depth=0.3 model.dropout=0.1 model.blurpool=timm)
train cut 1 "${cut[@]}" data.train_size=16
train small_too 1 "${cut[@]}" data.image_size=16
near "training at 16 pixels" cut small_too 1e-6
settings small_at_32 "${cut[@]}"
expect "eval at 32 pixels" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest small_too)"
for what in top1 loss; do
    expect_field "evaluation is at 32 pixels" small_at_32 eval "$what" "$(field cut eval "$what")"
done
train cut_parts 1 "${cut[@]}" data.train_size=16 train.max_steps=5
train cut_parts 1 "${cut[@]}" data.train_size=16
same "smaller images in one piece and in two" cut cut_parts
train cut 1 "${cut[@]}" data.train_size=24 train.max_steps=13
expect_text "another size" 1 "data.train_size was 16 and is 24"
train_fails bad 64 "data.train_size must be 0, or from 8 to 4096" 1 "${grow[@]}" data.train_size=7
train_fails bad 64 "data.train_size cannot be combined with data.augment: none" 1 "${grow[@]}" \
    data.train_size=16 data.augment=none
train_fails bad 64 "data.train_size requires a network that takes any image size" 1 "${grow[@]}" \
    model.name=mlp "data.progressive_sizes=[]" "data.progressive_until=[]" data.train_size=16

# Sizes may shrink too. Refusals name the key.
train shrink 1 "${grow[@]}" "data.progressive_sizes=40, 24" train.max_steps=12
train_fails bad 64 "data.progressive_until has 1 values, but data.progressive_sizes has 2" \
    1 "${grow[@]}" data.progressive_until=1
train_fails bad 64 "data.progressive_until must be ascending" 1 "${grow[@]}" \
    "data.progressive_until=2, 2"
train_fails bad 64 "data.progressive_sizes must be whole numbers" 1 "${grow[@]}" \
    "data.progressive_sizes=16.5, 24"

exit "$failed"
