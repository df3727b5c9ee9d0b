#!/usr/bin/env bash
# hub.sh - export --hub writes what timm.create_model reads of a folder: how images are prepared,
# the classes, and weights under timm's names; of networks that timm lacks it writes nothing.
# scripts/bench/check_hub.py holds the logits against timm's.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 1
make_config

# has TEXT... - the configuration of the last export holds each.
has()
{
    local text
    for text in "$@"; do
        grep -qF -- "$text" "$SCRATCH/hub/config.json" ||
            broken "no $text in $(cat "$SCRATCH/hub/config.json")"
    done
}

# names RUN NAME... - exports the run; there are tensors of these names.
names()
{
    local run=$1 name
    shift
    rm -rf "$SCRATCH/hub"
    expect "export of $run" 0 run 1 export "$SCRATCH/$run" --hub "$SCRATCH/hub"
    head -c 100000 "$SCRATCH/hub/model.safetensors" | grep -ao '"[a-z0-9_.]*":{"dtype"' |
        cut -d'"' -f2 | sort > "$SCRATCH/names"
    for name in "$@"; do
        grep -qx "$name" "$SCRATCH/names" || broken "$run: no tensor $name"
    done
}

train convnext 1 model.name=convnextv2_atto train.max_steps=2 data.eval_resize=36 \
    data.interpolation=bicubic train.eval_every=0
names convnext stem.0.weight stages.0.blocks.1.mlp.grn.weight stages.3.downsample.1.bias \
    head.norm.weight head.fc.bias
[[ $(wc -l < "$SCRATCH/names") == 140 ]] || broken "$(wc -l < "$SCRATCH/names") tensors"
has '{"architecture":"convnextv2_atto","num_classes":10,"num_features":320,' \
    '"label_names":["checkers","circle",' '"pretrained_cfg":{"input_size":[3,32,32],' \
    '"fixed_input_size":false,"interpolation":"bicubic","crop_pct":0.8888888888888888,' \
    '"crop_mode":"center","mean":[0.5,0.5,0.5],"std":[0.25,0.25,0.25],"num_classes":10,' \
    '"first_conv":"stem.0","classifier":"head.fc"}}'

# by the names of another library, of an image size of its own, of grey images, without names
(cd "$SCRATCH/data/train" && find . -name '*.jpg' | sort | awk '{ print $0 "," NR % 3 }') \
    > "$SCRATCH/data/train/numbers.csv"
train vit 1 model.name=vit_b_32 train.max_steps=1 train.eval_every=0 model.in_channels=1 \
    "data.train=$SCRATCH/data/train/numbers.csv" train.batch_per_rank=4
names vit patch_embed.proj.weight pos_embed blocks.11.attn.qkv.bias head.weight
has '{"architecture":"vit_base_patch32_224","num_classes":3,"num_features":768,"pretrained_cfg":{' \
    '"input_size":[1,32,32],"fixed_input_size":true,"interpolation":"bilinear","crop_pct":1,' \
    '"mean":[0.5],"std":[0.25],' '"first_conv":"patch_embed.proj","classifier":"head"}}'

# what timm lacks
train own 1 train.max_steps=1 train.eval_every=0
train stem 1 model.name=resnet18 model.stem=cifar train.max_steps=1 train.eval_every=0
train blur 1 model.name=resnet18 model.blurpool=ffcv train.max_steps=1 train.eval_every=0
rm -rf "$SCRATCH/hub"
for row in "own timm has no network that computes what resnet20 does" \
    "stem timm has no resnet18 with model.stem: cifar" \
    "blur timm has no resnet18 with model.blurpool: ffcv"; do
    expect_error "${row%% *}" 64 "--hub: ${row#* }" 1 export "$SCRATCH/${row%% *}" \
        --hub "$SCRATCH/hub"
done
[[ ! -e $SCRATCH/hub ]] || broken "a refused export wrote"
expect_error "names" 64 "--hub: takes neither" 1 export "$SCRATCH/convnext" --hub "$SCRATCH/hub" \
    --names timm
expect_error "two places" 64 "give either OUT or --hub DIR" 1 export "$SCRATCH/convnext" \
    "$SCRATCH/a.onnx" --hub "$SCRATCH/hub"
expect_error "no place" 64 "give either OUT or --hub DIR" 1 export "$SCRATCH/convnext"
expect_error "a file" 74 "$SCRATCH/small.yaml: cannot create folder" 1 export \
    "$SCRATCH/convnext" --hub "$SCRATCH/small.yaml"
exit "$failed"
