#!/usr/bin/env bash
# recompute.sh - train.recompute: norms and blocks are the run without it, to the bit, and a run
# goes on with another; a batch that needs it is told so.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config

# ways NAME RANKS KEY=VALUE... - the same run by each.
ways()
{
    local name=$1 ranks=$2 way
    shift 2
    for way in none norms blocks; do
        train "$name-$way" "$ranks" "$@" train.recompute="$way"
        same "$name: $way" "$name-none" "$name-$way"
        [[ $(losses "$name-none") == "$(losses "$name-$way")" ]] ||
            broken "$name: $way: the losses differ"
    done
}

ways accumulated 1 train.batch_per_rank=4 train.accumulate=2 train.max_steps=3
ways sam 1 optimizer.sam_rho=0.5 train.max_steps=2
ways sizes 1 train.epochs=2 data.image_size=40 data.eval_resize=40 \
    data.progressive_sizes=32 data.progressive_until=1 train.batch_per_rank=32
ways drops 1 model.name=efficientnet_b0 model.stem=cifar train.max_steps=2
ways bf16 1 train.precision=bf16 device.emulate=true train.max_steps=2
have_mpi && ways sync 2 model.bn=sync train.max_steps=3
grep -q 'train.recompute: blocks: backward makes [1-9][0-9]* results of forward again' \
    "$SCRATCH/sam-blocks/log.txt" || broken "the log does not say what is made again"

# Text: several sizes of canvas, attention with dropout, a table that two layers share.
text=(model.name=roberta_tiny data.format=synthetic data.train= data.synthetic_images=64
    data.tokens=32 train.batch_per_rank=4 train.max_steps=3)
sed -E -i.images '/^  (image_size|eval_resize|mean|std|augment):/d' "$SCRATCH/small.yaml"
ways text 1 "${text[@]}"
mv "$SCRATCH/small.yaml.images" "$SCRATCH/small.yaml"

# A run goes on with another.
steady=(schedule.name=constant train.epochs=9)
train whole 1 "${steady[@]}" train.max_steps=6
train parts 1 "${steady[@]}" train.max_steps=2
train parts 1 "${steady[@]}" train.max_steps=4 train.recompute=blocks
train parts 1 "${steady[@]}" train.max_steps=6 train.recompute=norms
same "6 steps and 2 + 2 + 2" whole parts
[[ $(losses whole) == "$(losses parts)" ]] || broken "6 steps and 2 + 2 + 2: the losses differ"

# What is said of memory, and of a batch that does not fit.
large=(data.synthetic_images=4000000 data.format=synthetic data.train= model.name=resnet50
    model.classes=10 data.mean=0.485 data.std=0.229)
# planned WAY BATCH - sets `activations`.
planned()
{
    settings plan "${large[@]}" train.recompute="$1" train.batch_per_rank="$2"
    expect "inspect memory: $1" 0 run 1 inspect memory "${sets[@]}"
    activations=$(awk '$1 == "activations" { print $2 }' "$out")
    fits=$(awk '/^largest batch per rank/ { print $5 }' "$out")
}
planned none 64
none=$activations none_fit=$fits
planned norms 64
norms=$activations norms_fit=$fits
planned blocks 64
((10 * norms < 9 * none && 2 * activations < none)) ||
    broken_run "activations: $none bytes, norms $norms, blocks $activations"
((none_fit < norms_fit && norms_fit < fits)) ||
    broken_run "largest batches: $none_fit, norms $norms_fit, blocks $fits"
train_fails norms 70 "fit; all fit with train.recompute: norms" 1 "${large[@]}" \
    train.batch_per_rank=$(((none_fit + norms_fit) / 2))
train_fails blocks 70 "fit; all fit with train.recompute: blocks" 1 "${large[@]}" \
    train.batch_per_rank=$(((norms_fit + fits) / 2))
train_fails neither 70 " fit" 1 "${large[@]}" train.batch_per_rank=$((fits + fits / 4))
grep -q 'all fit with' "$out" && broken_run "neither fits, but one is named"
train_fails cudnn 64 "train.recompute requires device.batchnorm: own" 1 \
    train.recompute=norms device.batchnorm=cudnn
exit "$failed"
