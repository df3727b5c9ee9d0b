#!/usr/bin/env bash
# cuda_sam.sh - optimizer.sam_rho on devices: as on the CPU, however a step is launched and
# whoever sums.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config
sam=(optimizer.sam_rho=0.05 train.epochs=9)

train plain 1
train cpu 1 "${sam[@]}" optimizer.sam_rho=0.5 train.max_steps=3 device.backend=cpu
train short 1 "${sam[@]}" optimizer.sam_rho=0.5 train.max_steps=3
follows "sam" short cpu 1e-5
near "sam" short cpu 1e-5
train fp32 1 "${sam[@]}"
far "sam is another run" fp32 plain 1e-3

# Both passes are recorded, each for both input slots: a whole step and every third one.
train eager 1 "${sam[@]}" device.cuda_graph=false
same "recorded and eager" fp32 eager
third=("${sam[@]}" optimizer.sam_interval=3 train.max_steps=7)
train third 1 "${third[@]}"
train third_eager 1 "${third[@]}" device.cuda_graph=false
train third_cpu 1 "${third[@]}" device.backend=cpu
same "every third step, recorded and eager" third third_eager
near "every third step" third third_cpu 1e-4
train traced 1 "${third[@]}" log.trace_steps=3-5
same "traced or not" third traced
[[ $(grep -o '"name":"perturb"' "$SCRATCH/traced/trace-0.json" | wc -l) == 1 ]] ||
    broken "traced: not one of three steps has two passes"

# 16 bits: the compute copies go along, and steps without finite gradients are skipped.
half=("${sam[@]}" train.precision=fp16 train.loss_scale=524288 train.max_steps=8)
train fp16 1 "${half[@]}"
train fp16_eager 1 "${half[@]}" device.cuda_graph=false
same "fp16, recorded and eager" fp16 fp16_eager
(($(field fp16 step skipped) > 0)) || broken "fp16: no step was skipped"
still=(optimizer.lr=0 optimizer.momentum=0 train.precision=bf16)
train still 1 "${still[@]}"
train still_sam 1 "${still[@]}" "${sam[@]}"
same "at rate 0, with sam and without" still still_sam
[[ $(losses still) == "$(losses still_sam)" ]] || broken "at rate 0: the losses differ"
CONVOY_EMU_SEED=7 train reordered 1 "${half[@]}"
same "whatever the order between streams" fp16 reordered

have_mpi || exit "$failed"
frozen=("${sam[@]}" model.bn=frozen comm.bucket_mb=0.3)
train one 1 "${frozen[@]}"
train staged 2 "${frozen[@]}" train.batch_per_rank=2
expect_text "staged" 1 "gradients are summed through host memory"
near "1 x 4 and 2 x 2 through the host" one staged 1e-5
train norms_staged 2 "${sam[@]}" train.batch_per_rank=2
emulated || exit "$failed" # the rest wants a GPU for each rank
export CONVOY_EMU_OWN_DEVICES=1
train nccl 2 "${frozen[@]}" train.batch_per_rank=2
same "2 x 2 through the host and by the devices" staged nccl
train norms_nccl 2 "${sam[@]}" train.batch_per_rank=2
same "statistics summed by the host and by the devices" norms_staged norms_nccl
exit "$failed"
