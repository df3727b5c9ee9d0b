#!/usr/bin/env bash
# losses.sh - binary cross entropy, class weights and erasing with noise: each changes a run, the
# same way for any threads, ranks and stops; evaluation knows none of them; bad values are named.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
rm "$SCRATCH"/data/train/c*/*[02468].jpg # the classes are not alike
make_config
for ((k = 0; k < 10; k++)); do echo "0.$((k + 1))"; done > "$SCRATCH/weights"

one=(model.bn=frozen schedule.name=constant train.epochs=9)
bce=(train.loss=bce train.bce_sum=true) # a mean over ten classes trains slowly

# differs RUN OTHER KEY=VALUE... - the keys make another run of OTHER's.
differs()
{
    local name=$1 other=$2
    shift 2
    train "$name" 1 "${one[@]}" train.max_steps=3 "$@"
    far "$*" "$other" "$name" 1e-4
}
train plain 1 "${one[@]}" train.max_steps=3
differs bce plain "${bce[@]}"
differs mean bce train.loss=bce
differs smooth bce "${bce[@]}" train.label_smoothing=0.1
differs mixed bce "${bce[@]}" data.mixup=1
differs threshold mixed "${bce[@]}" data.mixup=1 train.bce_threshold=0.2
differs auto plain train.class_weights=auto
differs file plain "train.class_weights=$SCRATCH/weights"
differs bce_file bce "${bce[@]}" "train.class_weights=$SCRATCH/weights"
differs erased plain data.random_erase=1
differs rand erased data.random_erase=1 data.erase_mode=rand
differs pixel rand data.random_erase=1 data.erase_mode=pixel
differs half mixed "${bce[@]}" data.mixup=1 data.mixup_prob=0.5
differs cutmix plain data.mixup=1 data.cutmix=1
differs switched cutmix data.mixup=1 data.cutmix=1 data.mixup_switch_prob=0.9
differs off plain data.mixup=1 data.mixup_off_epoch=1

# Any threads, stops and ranks; the divisor of class weights is no batch's.
all=("${one[@]}" "${bce[@]}" train.label_smoothing=0.1 train.bce_threshold=0.2 data.mixup=0.8
    data.cutmix=1 data.mixup_prob=0.7 "train.class_weights=$SCRATCH/weights" data.random_erase=0.7
    data.erase_mode=pixel data.auto_augment=randaugment_timm
    data.auto_augment_interpolation=random train.batch_per_rank=4 train.accumulate=2)
train all 1 "${all[@]}" train.max_steps=4
train threads 1 "${all[@]}" train.max_steps=4 data.threads=4
same "1 and 4 decode threads" all threads
train parts 1 "${all[@]}" train.max_steps=3
train parts 1 "${all[@]}" train.max_steps=4
same "4 steps and 3 + 1" all parts
weighted=("${one[@]}" train.max_steps=4 train.class_weights=auto train.label_smoothing=0.1
    data.random_erase=1 data.erase_mode=rand)
train whole 1 "${weighted[@]}"
train micro 1 "${weighted[@]}" train.batch_per_rank=4 train.accumulate=2
near "1 x 8 and 1 x 4 accumulated twice" whole micro 1e-5
if have_mpi; then
    train ranks 2 "${all[@]}" train.max_steps=4 train.accumulate=1
    near "1 x 4 accumulated twice and 2 x 4" all ranks 1e-5
    train shared 2 "${weighted[@]}" train.batch_per_rank=4
    near "1 x 8 and 2 x 4" whole shared 1e-5
fi

# Evaluation reports cross entropy, and needs no file of weights.
rm "$SCRATCH/weights"
for name in eval eval_all; do
    settings "$name" "data.val=$SCRATCH/data/val"
    [[ $name == eval_all ]] && for setting in "${all[@]}"; do sets+=(--set "$setting"); done
    expect "$name" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest all)"
    grep -E "eval on .*: loss" "$out" > "$SCRATCH/$name.said" || broken_run "$name says nothing"
done
cmp -s "$SCRATCH/eval.said" "$SCRATCH/eval_all.said" || broken "the loss of training is evaluated"

no_grace
train_fails absent 65 "train.class_weights" 1 "train.class_weights=$SCRATCH/weights"
seq 3 > "$SCRATCH/weights"
train_fails few 65 "train.class_weights: $SCRATCH/weights: 3 numbers for 10 classes" 1 \
    "train.class_weights=$SCRATCH/weights"
have_mpi && train_fails few 65 "3 numbers for 10 classes" 2 "train.class_weights=$SCRATCH/weights"
train_fails low 64 "train.bce_threshold" 1 train.loss=bce train.label_smoothing=0.5 \
    train.bce_threshold=0.04
train_fails high 64 "train.bce_threshold" 1 train.loss=bce train.label_smoothing=0.1 \
    train.bce_threshold=0.95
printf '1\n\0\n' > "$SCRATCH/weights"
train_fails binary 65 "train.class_weights: $SCRATCH/weights: not a text file" 1 \
    "train.class_weights=$SCRATCH/weights"
train_fails strong 64 "data.randaugment_magnitude" 1 data.auto_augment=randaugment_timm \
    data.randaugment_magnitude=11
exit "$failed"
