#!/usr/bin/env bash
# vit.sh - a vision transformer of four patches trains the same however its batch is split, in fp32
# and bf16, and goes on where it stopped; weights of another image size bring positions that fit.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 3
make_config

# Weight decay of AdamW, and blocks that are dropped by the image's place.
net=(model.name=deit_tiny_patch16_224 optimizer.name=adamw optimizer.lr=0.0005 train.max_steps=4
    model.stochastic_depth=0.2 model.dropout=0.1 model.attention_dropout=0.2 schedule.name=constant)
train whole 1 "${net[@]}"
train parts 1 "${net[@]}" train.max_steps=2
train parts 1 "${net[@]}"
expect_text "a run goes on" 1 "resumed from"
same "4 steps and 2 + 2" whole parts
[[ $(losses whole) == "$(losses parts)" ]] || broken "4 steps and 2 + 2: the losses differ"
train threads 1 "${net[@]}" device.threads=2
follows "1 and 2 threads" whole threads 1e-5
train micro 1 "${net[@]}" train.batch_per_rank=4 train.accumulate=2
follows "1 x 8 and 1 x 4 accumulated twice" whole micro 1e-5
train heeds 1 "${net[@]}" model.attention_dropout=0
far "attention that drops weights and one that does not" whole heeds 1e-4
train kept 1 "${net[@]}" model.stochastic_depth=0 model.dropout=0 model.attention_dropout=0
far "dropping something and nothing" whole kept 1e-3
if have_mpi; then
    train two 2 "${net[@]}" train.batch_per_rank=4
    follows "1 x 8 and 2 x 4" whole two 1e-5
fi

bf16=("${net[@]}" train.precision=bf16 device.emulate=true)
train bf16 1 "${bf16[@]}"
follows "bf16" bf16 whole 0.02
far "bf16 is another computation" bf16 whole 1e-5
train bf16_parts 1 "${bf16[@]}" train.max_steps=2
train bf16_parts 1 "${bf16[@]}"
same "4 steps and 2 + 2 in bf16" bf16 bf16_parts

# Out, in again at another image size, and to others.
expect "export" 0 run 1 export "$(latest whole)" "$SCRATCH/timm.safetensors"
expect "export of other names" 0 run 1 export "$(latest whole)" "$SCRATCH/torchvision.safetensors" \
    --names torchvision
grep -qaF encoder.pos_embedding "$SCRATCH/torchvision.safetensors" ||
    broken "torchvision's names are not torchvision's"
for names in timm torchvision; do
    train "$names" 1 "${net[@]}" "model.init=$SCRATCH/$names.safetensors" train.max_steps=1
done
same "weights under either names" timm torchvision
train dinov2 1 "${net[@]}" model.name=vit_small_patch14_dinov2 train.max_steps=1 \
    data.image_size=28 data.eval_resize=28
expect_error "names that are not known" 64 "only has the names of timm" 1 export \
    "$(latest dinov2)" "$SCRATCH/none.safetensors" --names torchvision
train larger 1 "${net[@]}" "model.init=$SCRATCH/timm.safetensors" train.max_steps=1 \
    data.image_size=48 data.eval_resize=48
expect_text "positions that fit" 1 "pos_embed: resized from 2 x 2 patches to 3 x 3"
expect "export onnx" 0 run 1 export "$(latest whole)" "$SCRATCH/run.onnx"
expect "inspect memory" 0 run 1 inspect memory "${sets[@]}"
expect "inspect model" 0 run 1 inspect model vit_b_16
expect_text "inspect model" 12 "12 heads"
expect_text "published weights" 1 \
    "weights IMAGENET1K_V1: 81.072 % top-1, 224 pixels cut from 256, bilinear"

train_fails odd 64 "data.image_size: images of 40 x 40 pixels do not divide into patches of 16" 1 \
    "${net[@]}" data.image_size=40 data.eval_resize=40
train_fails small 64 "data.image_size" 1 "${net[@]}" data.image_size=8 data.eval_resize=8
train_fails heedless 64 "model.attention_dropout requires attention" 1 "${net[@]}" \
    model.name=resnet20 model.attention_dropout=0.3
train_fails stemless 64 "model.stem: this network has no stem for small images" 1 "${net[@]}" \
    model.stem=cifar
train_fails growing 64 "requires a network that takes any image size" 1 \
    "${net[@]}" data.train_size=48
train_fails normless 64 "model.zero_init_last_gamma require batch norm" 1 \
    "${net[@]}" model.bn=frozen
exit "$failed"
