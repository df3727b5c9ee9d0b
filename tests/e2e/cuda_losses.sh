#!/usr/bin/env bash
# cuda_losses.sh - binary cross entropy, class weights, several labels per image, boxes of noise and
# a teacher on the device: as on the CPU, recorded or not.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config
for ((k = 0; k < 10; k++)); do echo "0.$((k + 1))"; done > "$SCRATCH/weights"

bce=(train.loss=bce train.bce_sum=true train.bce_threshold=0.2 train.label_smoothing=0.1
    data.mixup=0.8 data.cutmix=1 data.mixup_prob=0.7 data.random_erase=1 data.erase_mode=pixel
    "train.class_weights=$SCRATCH/weights")
weighted=("train.class_weights=$SCRATCH/weights" data.random_erase=1 data.erase_mode=rand)
several=(train.loss=bce data.labels=multi train.label_smoothing=0.1 data.mixup=0.8
    train.class_weights=auto)
train teacher 1 device.backend=cpu train.seed=2 train.max_steps=4
taught=("train.teacher=$SCRATCH/teacher" data.mixup=0.8 data.mean=0.4 train.seed=5)
for name in bce weighted several taught; do
    declare -n sets_of=$name
    train "${name}_cpu" 1 "${sets_of[@]}" device.backend=cpu
    train "$name" 1 "${sets_of[@]}"
    follows "$name" "$name" "${name}_cpu" 1e-5
    near "$name" "$name" "${name}_cpu" 1e-5
    train "${name}_eager" 1 "${sets_of[@]}" device.cuda_graph=false
    same "$name, recorded and eager" "$name" "${name}_eager"
done
far "the losses differ" bce weighted 1e-3
half=("${taught[@]}" train.precision=bf16)
train half 1 "${half[@]}"
follows "bf16" half taught 0.02
train half_parts 1 "${half[@]}" train.max_steps=3
train half_parts 1 "${half[@]}" device.cuda_graph=false
same "bf16, recorded and in parts" half half_parts
far "the losses differ" bce several 1e-3
# two images of nearly the same score may change places
for place in cuda cpu; do
    expect "eval on $place" 0 run 1 eval "$SCRATCH/several" "device.backend=$place"
    maps+=("$(field several eval map)")
done
awk -v a="${maps[0]}" -v b="${maps[1]}" \
    'BEGIN { exit !(a > 0.05 && a - b < 0.01 && b - a < 0.01) }' ||
    broken "mAP is ${maps[0]} on the device, ${maps[1]} on the CPU"
exit "$failed"
