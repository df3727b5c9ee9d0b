#!/usr/bin/env bash
# cuda_lanes.sh - how many weight gradients may lag behind (device.side_depth): the same bits, in
# another order and in other memory.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

train usual 1
for depth in 0 16; do
    train "depth_$depth" 1 "device.side_depth=$depth"
    same "depth $depth and the default" usual "depth_$depth"
    [[ $(losses usual) == "$(losses "depth_$depth")" ]] || broken "depth $depth: the losses differ"
done
CONVOY_EMU_SEED=7 train reordered 1 device.side_depth=16
same "whatever the order between streams" usual reordered

# bytes ROW DEPTH - of convoy inspect memory
bytes()
{
    settings memory train.batch_per_rank=8 "device.side_depth=$2"
    expect "memory at depth $2" 0 run 1 inspect memory "${sets[@]}"
    sed -nE "s/^$1 +([0-9]+)( .*)?\$/\1/p" "$out"
}
few=$(bytes activations 2) many=$(bytes activations 16)
((few > 0 && few < many)) || broken "activations take $few bytes at depth 2, $many at depth 16"
aside=$(bytes "workspace, side lane" 0)
((${aside:-0} == 0)) || broken "without a side lane it has $aside bytes of workspace"
exit "$failed"
