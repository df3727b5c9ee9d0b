#!/usr/bin/env bash
# memory.sh - what a run takes is what convoy inspect memory said before: peak resident memory less
# that at the start is within 15 % of it, for plans of 1 GB and more. What the host has no memory
# for is refused before it is taken.
source tests/e2e/lib/common.sh
cat > "$SCRATCH/large.yaml" << END
model:
  name: resnet18
  classes: 100
data:
  format: synthetic
  synthetic_images: 64
  image_size: 224
train:
  precision: fp32
  batch_per_rank: 48
  max_steps: 1
schedule:
  warmup_epochs: 0
device:
  backend: cpu
END

# compare NAME SETTING... - plans, runs one step, compares.
compare()
{
    local name=$1 planned peak said settings=()
    shift
    for setting; do settings+=(--set "$setting"); done
    expect "$name: plan" 0 run 1 inspect memory "$SCRATCH/large.yaml" "${settings[@]}"
    planned=$(awk '$1 == "total" { print $2 }' "$out")
    ((planned >= 1000000000)) || broken_run "$name: the plan has only ${planned:-no} bytes"
    expect "$name: run" 0 run 1 train --verbose "$SCRATCH/large.yaml" \
        --set "run.dir=$SCRATCH/$name" "${settings[@]}"
    read -r peak said < <(sed \
        -nE 's/^memory: peak ([0-9]+) bytes above start, planned ([0-9]+) bytes$/\1 \2/p' "$out")
    grep -q ' info memory: peak ' "$SCRATCH/$name/log.txt" ||
        broken "$name: log.txt does not say what the run took"
    rm -r "${SCRATCH:?}/$name"
    [[ $said == "$planned" ]] ||
        broken_run "$name: the run plans ${said:-nothing}, inspect memory said $planned"
    awk -v peak="${peak:-0}" -v planned="$planned" \
        'BEGIN { r = peak / planned; exit !(r > 0.85 && r < 1.15) }' ||
        broken_run "$name: took ${peak:-?} bytes, planned $planned"
}

# Nine tenths of the first two are activations; all of the third is parameters and what hangs on
# them.
compare activations
compare activations_in_bf16 train.precision=bf16 device.emulate=true model.name=efficientnet_b0 \
    train.batch_per_rank=32
compare parameters model.name=mlp model.in_channels=1 data.image_size=272 data.eval_resize=0 \
    train.batch_per_rank=8 \
    optimizer.name=adam "data.mean=[0.5]" "data.std=[0.25]"
# Far too large for any host: refused at once, on all ranks, with the batch that fits.
too_large=(data.synthetic_images=4000000 train.batch_per_rank=1000000)
largest()
{
    sed -nE 's/^convoy( [a-z-]+)*: error: .*; at most ([0-9]+) fit(; all fit with .*)?$/\2/p' "$out"
}
refused()
{
    local settings=() setting
    for setting in "${too_large[@]}"; do settings+=(--set "$setting"); done
    expect_error "$1" 70 "train.batch_per_rank: 1000000 images need" "$2" "${@:3}" \
        "$SCRATCH/large.yaml" --set "run.dir=$SCRATCH/large" "${settings[@]}"
    [[ $(largest) =~ ^[1-9][0-9]*$ ]] || broken_run "$1: does not say what fits"
}
refused "train" 1 train
alone=$(largest)
[[ ! -e $SCRATCH/large/checkpoints/latest ]] || broken "train: has a checkpoint"
expect_field "train" large "done" code 70
refused "inspect memory" 1 inspect memory
expect_text "inspect memory: the table" 1 "per rank at 1000000 images per micro-batch"
# One image alone is too few for the last batch norms; ImageNet is not here.
expect "inspect memory of 1x1" 0 run 1 inspect memory configs/resnet18-fashion-mnist.yaml
expect "inspect memory of a large batch" 0 run 1 inspect memory configs/recipes/resnet50-a1.yaml \
    train.batch_mode=global train.global_batch=2304 train.accumulate=256
# Free memory is never quite the same twice.
for share in 90:0 110:70; do
    expect "inspect memory of ${share%:*} % of what fits" "${share#*:}" run 1 inspect memory \
        "$SCRATCH/large.yaml" --set data.synthetic_images=4000000 \
        --set train.batch_per_rank=$((alone * ${share%:*} / 100))
    expect_text "inspect memory" 1 "of this host's memory"
done
# Two ranks share the host.
if have_mpi; then
    refused "train on two ranks" 2 train
    awk -v two="$(largest)" -v one="$alone" \
        'BEGIN { r = two / one; exit !(r > 0.35 && r < 0.65) }' ||
        broken_run "two ranks: $(largest) fit, alone $alone"
fi
exit "$failed"
