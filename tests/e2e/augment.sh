#!/usr/bin/env bash
# augment.sh - augmentation beyond crop and flip: it changes a run, the same way for any threads,
# ranks and stops, and evaluation is left alone by it.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config

all=(data.auto_augment=randaugment "data.color_jitter=0.4,0.4,0.4,0.1" data.random_erase=0.5
    data.mixup=0.2 data.cutmix=1 train.label_smoothing=0.1 model.bn=frozen schedule.name=constant
    train.epochs=9)
train plain 1 train.label_smoothing=0.1 model.bn=frozen schedule.name=constant train.epochs=9 \
    train.max_steps=4
train all 1 "${all[@]}" train.max_steps=4
far "augmentation changes the run" plain all 1e-3
train threads 1 "${all[@]}" train.max_steps=4 data.threads=4
same "1 and 4 decode threads" all threads
train parts 1 "${all[@]}" train.max_steps=3
train parts 1 "${all[@]}" train.max_steps=4
same "4 steps and 3 + 1" all parts

# Images are mixed within a micro-batch, and what is drawn belongs to its place in the step:
# micro-batches of four are the same ones whoever has them. Eight at once are mixed with others.
train micro 1 "${all[@]}" train.max_steps=4 train.batch_per_rank=4 train.accumulate=2
far "8 at once and 4 twice" all micro 1e-3
if have_mpi; then
    train ranks 2 "${all[@]}" train.max_steps=4 train.batch_per_rank=4
    near "1 x 4 accumulated twice and 2 x 4" micro ranks 1e-5
fi

# Each of them alone changes the run too.
one=(model.bn=frozen schedule.name=constant train.epochs=9 train.label_smoothing=0.1
    train.max_steps=4)
for key in data.auto_augment=randaugment data.auto_augment=autoaugment \
    data.auto_augment=trivialaugment data.auto_augment=augmix \
    data.color_jitter=0.4,0.4,0.4,0.1 data.random_erase=1 data.mixup=1 data.cutmix=1 \
    data.repeated_augmentation=4 data.train_interpolation=random \
    data.auto_augment=randaugment_timm; do
    train "one_$key" 1 "${one[@]}" "$key"
    far "$key" plain "one_$key" 1e-4
done
train_fails uneven 64 "data.repeated_augmentation" 1 data.repeated_augmentation=3 train.max_steps=1

# Evaluation: the same images whatever training does to them;
# mirrored too only where that is asked for.
for name in eval eval_all eval_flip; do
    settings "$name" "data.val=$SCRATCH/data/val"
    case $name in
    eval_all)
        sets+=(--set data.auto_augment=randaugment --set data.mixup=0.2 --set data.random_erase=1
            --set data.train_interpolation=random)
        ;;
    eval_flip) sets+=(--set data.tta=flip) ;;
    esac
    expect "$name" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest all)"
    grep -E 'loss' "$out" > "$SCRATCH/$name.said" || broken_run "$name says nothing"
done
cmp -s "$SCRATCH/eval.said" "$SCRATCH/eval_all.said" || broken "augmentation changes evaluation"
cmp -s "$SCRATCH/eval.said" "$SCRATCH/eval_flip.said" && broken "data.tta flip changes nothing"
exit "$failed"
