#!/usr/bin/env bash
# overlap.sh - the trace of real steps: at least 95 % of the gradient bytes start being reduced
# before the last rank ends backward, and steady steps allocate nothing, with images decoded from
# JPEG files too.
#
# alone: it asks how much of a reduction is hidden behind backward
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 1
make_config

# value NAME - of the last output of convoy bench step.
value()
{
    awk -v name="$1" '$1 == name { print $2 }' "$out"
}

# no_allocations WHAT
no_allocations()
{
    [[ $(value allocations) == 0 ]] ||
        broken_run "$1: allocations in steady steps: $(value allocations)"
}

resnet18=(--set model.name=resnet18 --set model.classes=10 --set data.format=synthetic
    --set data.image_size=64 --set data.eval_resize=0 --set device.threads=1)
ranks=(1)
have_mpi && ranks=(1 2)
for n in "${ranks[@]}"; do
    settings bench data.augment=imagenet train.batch_per_rank=16
    expect "JPEG files on $n" 0 run "$n" bench step "${sets[@]}" --steps 12 --warmup 3
    no_allocations "JPEG files on $n"
    settings bench train.accumulate=2
    expect "accumulation on $n" 0 run "$n" bench step "${sets[@]}" --steps 6 --warmup 3
    no_allocations "accumulation on $n"
done
if have_mpi; then
    expect "resnet18 on 2" 0 run 2 bench step "$SCRATCH/small.yaml" "${resnet18[@]}" --steps 24
    no_allocations "resnet18 on 2"
    awk -v overlap="$(value overlap)" 'BEGIN { exit !(overlap >= 0.95) }' ||
        broken_run "resnet18 on 2: overlap $(value overlap), expected 0.95"
    [[ $(value ranks) == 2 ]] || broken_run "resnet18 on 2: ranks $(value ranks)"
fi
exit "$failed"
