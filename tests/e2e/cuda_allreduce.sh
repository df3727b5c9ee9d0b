#!/usr/bin/env bash
# cuda_allreduce.sh - convoy bench allreduce on devices: by the stand-in for NCCL with a device for
# each rank, else by the host.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
if ! have_mpi; then
    echo "this convoy has no MPI"
    exit 77
fi
sizes=(--max-bytes 64K --steps 2 --warmup 1)
expect "shared" 0 mpirun -n 2 "$CONVOY" bench allreduce "${sizes[@]}"
expect_text "shared" \
    1 "# 2 ranks, summed by MPI on host memory (ranks share a GPU, or there is no NCCL)"
expect_text "shared" 1 "# Out of bounds values : 0 OK"
emulated || exit "$failed" # the rest wants a GPU for each rank
export CONVOY_EMU_OWN_DEVICES=1
expect "own" 0 mpirun -n 2 "$CONVOY" bench allreduce "${sizes[@]}" --min-busbw 0.0000001
expect_text "own" 1 "# 2 ranks, summed by NCCL"
expect_text "own" 1 "# Out of bounds values : 0 OK"
[[ $(grep -cE 'sum +-1( +[0-9.]+ +[0-9.]+ +[0-9.]+ +0){2}$' "$out") == 14 ]] ||
    broken_run "own: not every size out of place and in place"
expect_text "own: devices" 2 " device  0 [emulated 0 of process"

# Buckets of a network, in memory that NCCL has registered, in fp32 and as bf16.
export CONVOY_EMU_REGISTERED=1
like=(bench allreduce --like resnet20 --rate 1000 --steps 2 --warmup 1 data.image_size=32
    model.classes=10 comm.bucket_mb=0.3 device.backend=cuda)
expect "like, fp32" 0 mpirun -n 2 "$CONVOY" "${like[@]}" train.precision=fp32
expect_text "like, fp32" 1 "summed_by nccl"
expect_text "like, fp32" 1 "summed_mb 1.079"
expect "like, bf16" 0 mpirun -n 2 "$CONVOY" "${like[@]}" train.precision=bf16
expect_text "like, bf16" 1 "summed_mb 0.539"
expect "like, elsewhere" 78 mpirun -n 2 "$CONVOY" "${like[@]}" train.precision=bf16 \
    comm.zero_copy=false
exit "$failed"
