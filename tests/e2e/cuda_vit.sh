#!/usr/bin/env bash
# cuda_vit.sh - a vision transformer on the CUDA backend: as on the CPU in fp32, close in 16 bits,
# recorded or not, stopped or not.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

# One patch and the class token: each emulated thread is a fiber.
net=(model.name=deit_tiny_patch16_224 optimizer.name=adamw optimizer.lr=0.0001)
train cpu 1 "${net[@]}" device.backend=cpu
train begun 1 "${net[@]}" device.backend=cpu train.max_steps=2
train fp32 1 "${net[@]}" train.max_steps=2
follows "fp32" fp32 begun "$(in_any_order 1e-5)"
train bf16 1 "${net[@]}" train.precision=bf16 train.max_steps=2
follows "bf16" bf16 begun 0.03
far "bf16 is another computation" bf16 begun 1e-5

# Steps 3 and 4 are recorded, one for each input slot, 5 and 6 replayed.
train fp16 1 "${net[@]}" train.precision=fp16 checkpoint.every_steps=3
follows "fp16" fp16 cpu 0.01
mkdir -p "$SCRATCH/eager/checkpoints"
cp "$SCRATCH/fp16/checkpoints/step-00000003.safetensors" "$SCRATCH/eager/checkpoints/"
train eager 1 "${net[@]}" train.precision=fp16 device.cuda_graph=false
expect_text "a run goes on" 1 "resumed from"
same "6 steps recorded, and 3 + 3 of which the last are not" fp16 eager
exit "$failed"
