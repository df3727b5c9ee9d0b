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
# Attention is cuDNN's in 16 bits, unless that is switched off.
train bf16 1 "${net[@]}" train.precision=bf16 train.max_steps=2
expect_text "attention by cuDNN" 1 "by cuDNN (device.batchnorm, depthwise, attention): attention"
expect_text "each shape of it" 1 "attention_bwd 1 of 1 shapes"
follows "bf16" bf16 begun 0.03
far "bf16 is another computation" bf16 begun 1e-5
train own 1 "${net[@]}" train.precision=bf16 train.max_steps=2 device.attention=own
grep -q "device.batchnorm, depthwise, attention" "$out" && broken "our own kernels are spoken of"
follows "attention by our kernels" own begun 0.03
far "they round elsewhere" own bf16 1e-9
# What drops reads masks that our kernels draw: the same as ours and the CPU's.
drop=("${net[@]}" train.max_steps=2 model.attention_dropout=0.4)
train drops_cpu 1 "${drop[@]}" device.backend=cpu
train drops 1 "${drop[@]}" train.precision=bf16
expect_text "attention with dropout by cuDNN" 1 "attention_bwd 1 of 1 shapes"
follows "dropout by cuDNN" drops drops_cpu 0.03
far "dropout is another run" drops bf16 1e-3
settings by_auto "${net[@]}" device.attention=cudnn train.precision=auto train.precision_auto=fp32
expect "cuDNN's attention where auto is fp32" 64 run 1 train "${sets[@]}"
expect_text "it tells in what the run is" 1 "cudnn does not support the precision of this run: fp32"
settings refused "${net[@]}" device.attention=cudnn train.precision=fp32
expect "cuDNN's attention in fp32" 64 run 1 train "${sets[@]}"
expect_text "it names both keys" 1 "device.attention: cudnn does not support train.precision: fp32"

# Steps 3 and 4 are recorded, one for each input slot, 5 and 6 replayed.
train fp16 1 "${net[@]}" train.precision=fp16 checkpoint.every_steps=3
follows "fp16" fp16 cpu 0.01
mkdir -p "$SCRATCH/eager/checkpoints"
cp "$SCRATCH/fp16/checkpoints/step-00000003.safetensors" "$SCRATCH/eager/checkpoints/"
train eager 1 "${net[@]}" train.precision=fp16 device.cuda_graph=false
expect_text "a run goes on" 1 "resumed from"
same "6 steps recorded, and 3 + 3 of which the last are not" fp16 eager
exit "$failed"
