#!/usr/bin/env bash
# cuda_ranks.sh - several ranks: gradients summed through the host, and by the devices themselves
# inside the recorded step, are those of one rank with the same global batch.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
if ! have_mpi; then
    echo "this convoy has no MPI"
    exit 77
fi
make_tiny_config

# Sums of device memory by themselves, recorded too: of one rank, of two that share a device.
check=$(dirname "$CONVOY")/make_commcheck
expect "sums of one rank" 0 "$check" device
expect_text "sums of one rank" 1 "1 ranks sum by: nccl"
expect "sums of two ranks on one device" 0 mpirun -n 2 "$check" device
expect_text "sums of two ranks on one device" some "2 ranks sum by: staged"

frozen=(model.bn=frozen train.batch_per_rank=2 comm.bucket_mb=0.3)
train one 1 "${frozen[@]}" train.batch_per_rank=4
train staged 2 "${frozen[@]}"
expect_text "staged" 1 "gradients are summed through host memory"
near "1 x 4 and 2 x 2 through the host" one staged 1e-5
half=("${frozen[@]}" train.precision=bf16 comm.grad_dtype=fp32)
train half_staged 2 "${half[@]}"
clip=("${frozen[@]}" optimizer.clip_norm=0.5)
train clip_one 1 "${clip[@]}" train.batch_per_rank=4
train clip_staged 2 "${clip[@]}"
near "clipping on 1 and 2 ranks" clip_one clip_staged 1e-5
far "clipping changes the steps" one clip_one 1e-3
train fp16_staged 2 train.precision=fp16 train.loss_scale=524288 train.max_steps=8 train.epochs=9 \
    comm.grad_dtype=fp32
# The rest wants a GPU for each rank.
emulated || { echo "not tested: NCCL between ranks: wants the emulated device" && exit "$failed"; }

# NCCL takes a rank with a NCCL_HOSTID of its own for a host, and a GPU of two hosts for two: so one
# GPU is enough to sum by it, over sockets, in captured steps too.
# shellcheck disable=SC2016 # of the ranks' own shells
as_hosts='NCCL_HOSTID=host$OMPI_COMM_WORLD_RANK exec "$@"'
expect "sums of two ranks on one device by NCCL" 0 mpirun -n 2 sh -c "$as_hosts" sh "$check" device
expect_text "sums of two ranks on one device by NCCL" some "2 ranks sum by: nccl"
expect_text "sums of two ranks on one device by NCCL" some "ranks share a GPU and use NCCL"

# CONVOY_EMU_OWN_DEVICES gives each rank a device, so that they sum by the stand-in for NCCL.
export CONVOY_EMU_OWN_DEVICES=1
expect "sums of two ranks" 0 mpirun -n 2 "$check" device
expect_text "sums of two ranks" some "2 ranks sum by: nccl"
# Gradients are summed where NCCL allocated and registered memory, in any type, or else fail here.
export CONVOY_EMU_REGISTERED=1
train nccl 2 "${frozen[@]}"
train half 2 "${half[@]}"
expect_text "by the devices" 0 "gradients are summed through host memory"
same "2 x 2 through the host and by the devices" staged nccl
train eager 2 "${frozen[@]}" device.cuda_graph=false
same "2 x 2, recorded and eager" nccl eager
train four 4 "${frozen[@]}" train.batch_per_rank=1
near "1 x 4 and 4 x 1 by the devices" one four 1e-5
train accumulated 2 "${frozen[@]}" train.batch_per_rank=1 train.accumulate=2
near "1 x 4 and 2 x 1 accumulated twice" one accumulated 1e-5
train wide 2 "${frozen[@]}" comm.grad_dtype=bf16
near "sums in bf16" one wide 0.02
far "sums in bf16 are rounded" one wide 1e-6

expect "gradients elsewhere" 78 run 2 train "$SCRATCH/small.yaml" run.dir="$SCRATCH/elsewhere" \
    "${frozen[@]}" comm.zero_copy=false
expect_text "gradients elsewhere" some "not in registered memory"
unset CONVOY_EMU_REGISTERED
train elsewhere 2 "${frozen[@]}" comm.zero_copy=false
same "2 x 2 in NCCL's memory and in the backend's" nccl elsewhere
# Weight gradients in 16 bits are converted several at once, within their bucket.
same "bf16: 2 x 2 through the host and by the devices" half_staged half
train half_eager 2 "${half[@]}" device.cuda_graph=false
same "bf16: 2 x 2, recorded and eager" half half_eager

# The norm is that of the sum over the ranks.
train clip_nccl 2 "${clip[@]}"
same "clipping through the host and by the devices" clip_staged clip_nccl

# Batch statistics, averaged over the ranks; the CPU does the same. Of one step: later ones may meet
# a ReLU within rounding of zero (lib/cuda.sh).
train statistics 2 train.batch_per_rank=4 train.max_steps=1
train statistics_cpu 2 train.batch_per_rank=4 train.max_steps=1 device.backend=cpu
near "running statistics" statistics_cpu statistics 1e-5
train fp16 2 train.precision=fp16 train.loss_scale=524288 train.max_steps=8 train.epochs=9
(($(field fp16 step skipped) > 0)) || broken "fp16 on 2 ranks: no step was skipped"
expect_field "fp16 on 2 ranks" fp16 step skipped "$(field fp16_staged step skipped)"
exit "$failed"
