#!/usr/bin/env bash
# eval_size.sh - data.eval_resize: auto follows the image size, is kept as a number, and leaves a
# run that has another as it is.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 3
make_config
sed -i 's/^  eval_resize: 32$/  eval_resize: auto/; s/name: resnet20/name: resnet18/' \
    "$SCRATCH/small.yaml"
short=("data.val=$SCRATCH/data/val" train.max_steps=2)

# resolved RUN SIZE - what the run's configuration and its checkpoint hold.
resolved()
{
    local kept
    kept=$(sed -n 's/^  eval_resize: //p' "$SCRATCH/$1/config.yaml")
    [[ $kept == "$2" ]] || broken "$1: config.yaml has eval_resize: $kept, expected $2"
    grep -aqF "eval_resize: $2\\n" "$(latest "$1")" ||
        broken "$1: the checkpoint has another eval_resize than $2"
}

train auto 1 "${short[@]}"
expect_text "the size is said" 1 "scaled to 36 pixels and cropped to 32 (data.eval_resize: auto)"
resolved auto 36
train auto 1 "${short[@]}" train.max_steps=4
expect_text "a run that goes on" 0 "data.eval_resize was"

# A run that began with 256 goes on with it where the config now says auto, and is evaluated so.
train named 1 "${short[@]}" data.eval_resize=256
resolved named 256
ranks=1
have_mpi && ranks=2
train named "$ranks" "${short[@]}" train.max_steps=4 train.batch_per_rank=$((8 / ranks))
expect_text "a named size goes on" 1 "scaled to 256 pixels and cropped to 32 (data.eval_resize)"
expect_text "a named size goes on" 0 "data.eval_resize was"
expect_text "a named size goes on" 1 "data.eval_resize is 256, more than twice data.image_size 32"
resolved named 256
settings named "${short[@]}"
expect "eval of a named size" 0 run 1 eval --verbose "${sets[@]}" --checkpoint "$(latest named)"
expect_text "eval of a named size" 1 "scaled to 256 pixels"

# Not where the folder is begun anew, or its images have another size.
train named 1 "${short[@]}" checkpoint.resume=none
expect_text "begun anew" 1 "scaled to 36 pixels"
train named 1 "${short[@]}" train.max_steps=4 data.image_size=40
expect_text "another image size" 1 "scaled to 45 pixels"
exit "$failed"
