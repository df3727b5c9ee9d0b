#!/usr/bin/env bash
# airbench.sh - Keller Jordan's network and augmentation on a few images: filters made of the images
# when a run begins and then left alone, flips that turn with the epoch, six views of a test image.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 3
make_config

# Five steps an epoch: the second one shows images the other way round.
net=(model.name=airbench94 data.augment=airbench schedule.name=constant train.epochs=9)
made="whiten.weight: initialised to whiten the patches of 40 training images"
train whole 1 "${net[@]}" train.max_steps=7
expect_text "a run begins" 1 "$made"
train threads 1 "${net[@]}" train.max_steps=7 data.threads=4
same "1 and 4 decode threads" whole threads
train parts 1 "${net[@]}" train.max_steps=4
train parts 1 "${net[@]}" train.max_steps=7
expect_text "a run goes on" 0 "initialised to whiten"
same "7 steps and 4 + 3" whole parts
train cifar 1 "${net[@]}" train.max_steps=7 data.augment=cifar
far "data.augment airbench" whole cifar 1e-4
train given 1 "${net[@]}" train.max_steps=1 "model.init=$(latest whole)"
expect_text "weights of another run" 0 "initialised to whiten"
if have_mpi; then
    train one 1 "${net[@]}" train.max_steps=6 model.bn=frozen
    train two 2 "${net[@]}" train.max_steps=6 model.bn=frozen train.batch_per_rank=4
    near "1 x 8 and 2 x 4" one two 1e-5
fi

for name in none flip airbench; do
    settings "$name" "data.val=$SCRATCH/data/val" model.name=airbench94 "data.tta=$name"
    expect "$name" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest whole)"
    grep -E 'loss' "$out" > "$SCRATCH/$name.said" || broken_run "$name says nothing"
done
for other in none airbench; do
    cmp -s "$SCRATCH/flip.said" "$SCRATCH/$other.said" && broken "data.tta flip is $other"
done

train_fails small 64 "data.image_size" 1 "${net[@]}" data.image_size=24 data.eval_resize=24
train_fails small 64 "data.train_size" 1 "${net[@]}" data.train_size=24
exit "$failed"
