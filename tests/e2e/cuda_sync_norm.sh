#!/usr/bin/env bash
# cuda_sync_norm.sh - batch norm over ranks on devices: summed inside the recorded step it is what
# one rank has of the whole batch and what the CPU has, in groups too; a rank whose images vanish
# takes part to the end; where the host would have to sum it is refused.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
if ! have_mpi; then
    echo "this convoy has no MPI"
    exit 77
fi
no_grace
make_tiny_config
sync=(model.bn=sync train.max_steps=4 train.batch_per_rank=4)
train_fails staged 64 "model.bn: sync on GPUs requires NCCL" 2 "${sync[@]}"
emulated || { echo "not tested: NCCL between ranks: wants the emulated device" && exit "$failed"; }

# An element that changes sides of a ReLU shows in all steps behind it: losses, not weights.
export CONVOY_EMU_OWN_DEVICES=1
train one 1 "${sync[@]}" train.batch_per_rank=8
train nccl 2 "${sync[@]}"
train eager 2 "${sync[@]}" device.cuda_graph=false
same "recorded and eager" nccl eager
follows "1 x 8 and 2 x 4" one nccl 1e-3
train apart 2 "${sync[@]}" model.bn=train
unlike "without sync" one apart 2e-3
train cpu 2 "${sync[@]}" device.backend=cpu
follows "the CPU and devices" cpu nccl 1e-3
train pairs 4 "${sync[@]}" train.batch_per_rank=2 model.bn_group=2
train pairs_cpu 4 "${sync[@]}" train.batch_per_rank=2 model.bn_group=2 device.backend=cpu
follows "groups of two" pairs_cpu pairs 1e-3
unlike "groups of two and one of four" nccl pairs 2e-3
exit "$failed"
