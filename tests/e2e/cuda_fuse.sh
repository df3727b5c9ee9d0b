#!/usr/bin/env bash
# cuda_fuse.sh - fp16 with batch norms in parts (device.fuse): it trains as without, is said,
# changes nothing about replay, order, resumption or micro-batches, and takes less memory.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

fp16=(train.precision=fp16)
all=("${fp16[@]}" device.fuse=all)
train apart 1 "${fp16[@]}" device.fuse=none
train fused 1 "${all[@]}"
expect_text "fused" 1 "fused (device.fuse): "
expect_text "fused" 1 "statistics 9 of 9 shapes"
expect_text "fused" 1 "; gradient 3 of 3 shapes"
expect_text "fused" 1 "residual gradient 3 of 5 shapes, 2 without an engine"
expect_text "fused" 1 "without an engine"
follows "fused" fused apart 0.02
far "fused is another computation" fused apart 1e-6
expect_field "fused" fused step skipped 0

# Where nothing can be measured nothing is fused, and it is said. Without a cache no engine is
# timed, so both runs are without one.
train automatic 1 "${fp16[@]}" device.plan_cache=none
expect_text "auto" 1 "statistics 0 of 9 shapes, 9 not measured"
train untimed 1 "${fp16[@]}" device.fuse=none device.plan_cache=none
same "auto where nothing is measured" automatic untimed

# Other precisions have no such engines, and do not ask; in bf16 there is a pattern of our own.
train bf16 1 train.precision=bf16 device.fuse=all train.max_steps=1
expect_text "bf16" 1 "fused (device.fuse): signs"
train fp32 1 train.precision=fp32 device.fuse=all train.max_steps=1
grep -q "device.fuse" "$out" && broken "fp32 speaks of fusions"

train eager 1 "${all[@]}" device.cuda_graph=false
same "recorded and eager" fused eager
[[ $(losses fused) == "$(losses eager)" ]] || broken "recorded and eager: the losses differ"
CONVOY_EMU_SEED=7 train reordered 1 "${all[@]}"
same "whatever the order between streams" fused reordered

train parts 1 "${all[@]}" train.max_steps=2
train parts 1 "${all[@]}"
same "6 steps and 2 + 4" fused parts
[[ $(losses fused) == "$(losses parts)" ]] || broken "6 steps and 2 + 4: the losses differ"

# Micro-batches have statistics of their own, so they are compared with micro-batches.
micro=(train.batch_per_rank=2 train.accumulate=2 train.max_steps=4)
train micro 1 "${fp16[@]}" device.fuse=none "${micro[@]}"
train micro_fused 1 "${all[@]}" "${micro[@]}"
follows "micro-batches" micro_fused micro 0.05

activations()
{
    settings memory "${fp16[@]}" "device.fuse=$1"
    expect "memory with device.fuse=$1" 0 run 1 inspect memory "${sets[@]}"
    awk '$1 == "activations" { print $2 }' "$out"
}
apart=$(activations none) together=$(activations all)
((together > 0 && together < apart)) ||
    broken "activations take $together bytes fused, $apart bytes apart"

# Pattern by pattern: all of them are all, one is that one.
every=statistics,prologue,block_end,block_end_with_shortcut,gradient,residual_gradient
train listed 1 "${fp16[@]}" "device.fuse=$every,shortcut_gradient"
same "all patterns by name" listed fused
train one 1 "${fp16[@]}" device.fuse=residual_gradient train.max_steps=1
expect_text "one pattern" 1 "fused (device.fuse): residual gradient 3 of 5"
grep -q "statistics" "$out" && broken "one pattern: others are spoken of"
settings wrong device.fuse=gradient,some
expect "a pattern that does not exist" 64 run 1 train "${sets[@]}"
expect_text "a pattern that does not exist" 1 'device.fuse has "some"; it must be auto, none or'
exit "$failed"
