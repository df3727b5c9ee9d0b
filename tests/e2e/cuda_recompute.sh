#!/usr/bin/env bash
# cuda_recompute.sh - train.recompute on devices: the same bits as without, recorded or not, in two
# passes and beside weight gradients.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

# ways NAME KEY=VALUE... - the same run by each.
ways()
{
    local name=$1 way
    shift
    for way in none norms blocks; do
        train "$name-$way" 1 "$@" train.recompute="$way"
        same "$name: $way" "$name-none" "$name-$way"
        [[ $(losses "$name-none") == "$(losses "$name-$way")" ]] ||
            broken "$name: $way: the losses differ"
    done
}

ways fp32
ways bf16 train.precision=bf16 train.accumulate=2 train.max_steps=3 train.epochs=9
ways sam optimizer.sam_rho=0.05 train.max_steps=3
ways drops model.name=efficientnet_b0 model.stem=cifar train.precision=bf16 train.max_steps=2
train eager 1 train.recompute=blocks device.cuda_graph=false
same "recorded and eager" fp32-blocks eager
train one_lane 1 train.recompute=blocks device.side_depth=0
same "weight gradients beside and not" fp32-blocks one_lane
train parts 1 train.recompute=norms train.max_steps=2
train parts 1 train.recompute=blocks
same "6 steps and 2 + 4" fp32-none parts
exit "$failed"
