#!/usr/bin/env bash
# own_files.sh - data and weights as others keep them: images in a list, classes by a map, and
# weights from PyTorch in predict.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 2
make_config
data=$SCRATCH/data

# ---- a list of a folder's images is that folder ----
(cd "$data/train" && find . -name '*.jpg' | shuf --random-source=<(yes) |
    sed -E 's|^\./([^/]+)/(.*)|\1/\2,\1|') > "$data/train/images.csv"
train folder 1
train list 1 "data.train=$data/train/images.csv"
expect_text "a list" 1 "; list with 40 training"
same "a folder and a list of it" folder list
if have_mpi; then
    train two 2 "data.train=$data/train/images.csv" train.batch_per_rank=4 model.bn=frozen
    train one 1 model.bn=frozen
    near "a list on two ranks" one two 1e-4
fi
expect "inspect dataset" 0 run 1 inspect dataset "$data/train/images.csv"
expect_text "inspect dataset" 1 "images 40"
expect "pack" 0 run 1 pack "$data/train/images.csv" "$SCRATCH/shards"
train packed 1 "data.train=$SCRATCH/shards"
same "a list and what was packed of it" list packed
sed '3s/,/.gone,/' "$data/train/images.csv" > "$data/train/gone.csv"
train_fails gone 65 "data.train: $data/train/gone.csv:3: " 1 "data.train=$data/train/gone.csv"

# ---- a map: three classes as two, of both sets ----
mapfile -t names < <(find "$data/train" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
printf '%s\tround\n%s\n%s\tround\n' "${names[0]}" "${names[3]}" "${names[1]}" > "$SCRATCH/map.txt"
train mapped 1 "data.val=$data/val" "data.class_map=$SCRATCH/map.txt"
expect_text "a map" 1 "2 classes; imagefolder with 12 training and 6 validation images"
expect "predict" 0 run 1 predict "$SCRATCH/mapped" "$data/train/${names[3]}" --csv
expect_text "predict by names of a map" some ",${names[3]},1,"
expect_text "predict by names of a map" some ",round,0,"
printf '%s\n%s\tround\n%s\tround\n' "${names[3]}" "${names[0]}" "${names[1]}" > "$SCRATCH/map.txt"
train mapped 1 "data.val=$data/val" "data.class_map=$SCRATCH/map.txt" train.epochs=2
expect_text "another map on resume" 1 \
    "class 0 is round there but ${names[3]} in data.train: they are taken for the same"
echo "${names[0]}" > "$SCRATCH/one.txt"
train_fails lonely 65 "one class only (${names[0]})" 1 "data.class_map=$SCRATCH/one.txt"

# ---- weights of others ----
picture=$(find "$data/train" -name '*.jpg' | sort | head -1)
expect "export" 0 run 1 export "$SCRATCH/folder" "$SCRATCH/weights.safetensors"
printf '%s\r\n' "${names[@]}" > "$SCRATCH/names.txt"
foreign=("$SCRATCH/weights.safetensors" "$picture" --model resnet20
    --set data.eval_resize=32 --set 'data.mean=[0.5]' --set 'data.std=[0.25]')
expect "predict RUN" 0 run 1 predict "$SCRATCH/folder" "$picture"
grep -v '^by' "$out" > "$SCRATCH/by_run"
expect "predict WEIGHTS" 0 run 1 predict "${foreign[@]}" --classes "$SCRATCH/names.txt"
cmp "$out" "$SCRATCH/by_run" || broken "predict by the run and by its weights differ"
expect "predict WEIGHTS without names" 0 run 1 predict "${foreign[@]}" --json --top 1
expect_text "predict WEIGHTS without names" 1 '{"class":"9","label":9,'
expect_error "other weights" 65 "not the weights of resnet32: missing: layer1.3" 1 predict \
    "$SCRATCH/weights.safetensors" "$picture" --model resnet32
printf 'a\nb' > "$SCRATCH/two.txt"
expect_error "fewer names" 65 "two.txt: 2 names, but " 1 predict "${foreign[@]}" \
    --classes "$SCRATCH/two.txt"
expect_error "no such network" 64 "--model: resnet21: no such network" 1 predict \
    "$SCRATCH/weights.safetensors" "$picture" --model resnet21
expect_error "no such weights" 64 "--model: resnet50 has no weights V7; there are IMAGENET1K_V1" 1 \
    predict "$SCRATCH/weights.safetensors" "$picture" --model resnet50:V7
expect_error "a checkpoint" 64 "leave out --model" 1 predict "$(latest folder)" "$picture" \
    --model resnet20
expect_error "classes of a run" 64 "--classes: a run knows its own" 1 predict "$SCRATCH/folder" \
    "$picture" --classes "$SCRATCH/names.txt"
export CUDA_VISIBLE_DEVICES=
expect_error "no GPU" 78 "device.backend is cuda" 1 predict "$SCRATCH/folder" "$picture" \
    --backend cuda

# ---- for other programs ----
expect "export as ONNX" 0 run 1 export "$SCRATCH/folder" "$SCRATCH/pixels.onnx" --with-input
grep -qa normalised "$SCRATCH/pixels.onnx" || broken "--with-input does not normalise"
expect_error "--with-input" 64 "--with-input: this goes with an .onnx file" 1 export \
    "$SCRATCH/folder" "$SCRATCH/again.safetensors" --with-input
exit "$failed"
