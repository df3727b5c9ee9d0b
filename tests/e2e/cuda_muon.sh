#!/usr/bin/env bash
# cuda_muon.sh - Muon on a device: recorded and not, stopped and continued to the bit, and in fp16,
# where steps that a loss scale skips move nothing.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config
keys=(optimizer.name=muon optimizer.nesterov=true optimizer.lr=0.001 optimizer.lr_scaling=none)

train own 1 "${keys[@]}" train.max_steps=4
train eager 1 "${keys[@]}" train.max_steps=4 device.cuda_graph=false
same "recorded and eager" own eager
train parts 1 "${keys[@]}" train.max_steps=2
train parts 1 "${keys[@]}" train.max_steps=4
same "4 steps and 2 + 2" own parts

train half 1 "${keys[@]}" train.max_steps=4 train.precision=fp16
follows "fp16" half own 0.05
train skips 1 "${keys[@]}" train.precision=fp16 train.loss_scale=16777216 train.max_steps=1
train longer 1 "${keys[@]}" train.precision=fp16 train.loss_scale=16777216 train.max_steps=2
grep -q '"loss_scale":4194304' "$SCRATCH/longer/metrics.jsonl" || broken "no step was skipped"
"$tools"/make_ckptdiff "$(latest skips)" "$(latest longer)" > "$out" 2>&1
grep -q 'params .* relative difference 0; of one tensor 0$' "$out" ||
    broken_run "skipped steps move parameters"
exit "$failed"
