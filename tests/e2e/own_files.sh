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
expect_text "a list" 1 "dataset: list; backend: "
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

# ---- numbers as classes, of which a set may lack some ----
numbers() # SET CLASSES - a list of the first of them
{
    awk -F, -v many="$2" '!($2 in n) { n[$2] = k++ } n[$2] < many { print $1 "," n[$2] }' \
        "$data/$1/images.csv" > "$data/$1/$2.csv"
}
(cd "$data/val" && find . -name '*.jpg' | sort | sed -E 's|^\./([^/]+)/(.*)|\1/\2,\1|') \
    > "$data/val/images.csv"
sort -t, -k2 -o "$data/train/images.csv" "$data/train/images.csv"
for many in 2 3 4; do numbers train $many; done
for many in 2 3; do numbers val $many; done
train fewer 1 "data.train=$data/train/3.csv" "data.val=$data/val/2.csv" train.batch_per_rank=4
expect "eval of fewer classes" 0 run 1 eval "$SCRATCH/fewer"
expect_text "eval of fewer classes" 1 "eval on 4 images: "
train_fails fewer 65 "class 3 is not in $SCRATCH/fewer/checkpoints/" 1 \
    "data.train=$data/train/4.csv" "data.val=$data/val/2.csv" train.batch_per_rank=4 train.epochs=2
sed -E 's/,0$/,3/' "$data/train/3.csv" > "$data/val/from1.csv"
sed -i 's|^|../train/|' "$data/val/from1.csv"
expect_error "eval of labels that start at 1" 65 "the same class: do labels start at 1?" 1 eval \
    "$SCRATCH/fewer" "data.val=$data/val/from1.csv"
train more 1 "data.train=$data/train/2.csv" "data.val=$data/val/3.csv" train.batch_per_rank=4
expect_text "more classes than learnt" 1 \
    "data.val has labels up to 2, but data.train has only 2 classes"
sed 's/,0$/,12/' "$data/val/2.csv" > "$data/val/12.csv"
train_fails unknown 65 "13 numbered classes here but 10 classes in data.train" 1 \
    "data.val=$data/val/12.csv"

# ---- a map: three classes as two, of both sets ----
mapfile -t names < <(find "$data/train" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
printf '%s\tround\n%s\n%s\tround\n' "${names[0]}" "${names[3]}" "${names[1]}" > "$SCRATCH/map.txt"
train mapped 1 "data.val=$data/val" "data.class_map=$SCRATCH/map.txt"
expect_text "a map" 1 ": 12 images of 2 classes, 6 for validation"
expect "predict" 0 run 1 predict "$SCRATCH/mapped" "$data/train/${names[3]}" --csv
expect_text "predict by names of a map" some ",${names[3]},1,"
expect_text "predict by names of a map" some ",round,0,"
cp -r "$SCRATCH/mapped" "$SCRATCH/reordered"
train mapped 1 "data.val=$data/val" "data.class_map=$SCRATCH/map.txt" train.epochs=2
printf '%s\n%s\tround\n%s\tround\n' "${names[3]}" "${names[0]}" "${names[1]}" > "$SCRATCH/map.txt"
train reordered 1 "data.val=$data/val" "data.class_map=$SCRATCH/map.txt" train.epochs=2
same "classes in another order on resume" mapped reordered
printf '%s\tround\n%s\n%s\tround\n' "${names[0]}" "${names[1]}" "${names[3]}" > "$SCRATCH/map.txt"
train_fails mapped 65 "class ${names[1]} is not in $SCRATCH/mapped/checkpoints/step-" 1 \
    "data.val=$data/val" "data.class_map=$SCRATCH/map.txt" train.epochs=3
echo "${names[0]}" > "$SCRATCH/one.txt"
train_fails lonely 65 "data.train has only one class (${names[0]})" 1 \
    "data.class_map=$SCRATCH/one.txt"

# ---- a test folder without some classes: labels are those of the run, by name ----
train five 1 "data.val=$data/val" train.epochs=2
run 1 eval "$SCRATCH/five" --confusion "$SCRATCH/all.csv" > "$out" 2>&1 || broken_run "eval"
cp -r "$data/val" "$SCRATCH/part" && rm -r "$SCRATCH/part/${names[0]}" "$SCRATCH/part/${names[4]}"
for ranks in 1 2; do
    ((ranks == 1)) || have_mpi || continue
    expect "eval of a part" 0 run $ranks eval "$SCRATCH/five" "data.val=$SCRATCH/part" \
        --confusion "$SCRATCH/part.csv"
    expect_text "eval of a part" 1 "eval on 16 images: "
    cmp -s <(grep -v "^${names[0]},\|^${names[4]}," "$SCRATCH/all.csv") \
        <(grep -v "^${names[0]},\|^${names[4]}," "$SCRATCH/part.csv") ||
        broken "on $ranks: other labels where classes are missing"
done
cp -r "$SCRATCH/part" "$SCRATCH/renamed"
mv "$SCRATCH/renamed/${names[1]}" "$SCRATCH/renamed/${names[1]}s"
expect_error "eval of an unknown class" 65 \
    "class ${names[1]}s is not in $SCRATCH/five/checkpoints/" 1 eval "$SCRATCH/five" \
    "data.val=$SCRATCH/renamed"
cp -r "$data/val" "$SCRATCH/fewer_val" && rm -r "$SCRATCH/fewer_val/${names[1]}"
expect "eval by a map of a part" 0 run 1 eval "$SCRATCH/mapped" "data.val=$SCRATCH/fewer_val"
expect_text "eval by a map of a part" 1 "eval on 4 images: "

# ---- folders that are called 0, 1, ... have names like others ----
for set in train val; do
    for c in 0 1 2; do
        mkdir -p "$SCRATCH/digits/$set" "$SCRATCH/letters/$set"
        cp -r "$data/$set/${names[c]}" "$SCRATCH/digits/$set/$c"
        cp -r "$data/$set/${names[c]}" "$SCRATCH/letters/$set/$(tr 012 cba <<< "$c")"
    done
done
digits=(model.name=mlp train.batch_per_rank=4 data.train=)
train digits 1 "${digits[@]}" "data.dir=$SCRATCH/digits"
train_fails digits 65 "class a is not in $SCRATCH/digits/checkpoints/" 1 "${digits[@]}" \
    "data.dir=$SCRATCH/letters" train.epochs=2
expect_error "eval by other names" 65 "class a is not in $SCRATCH/digits/checkpoints/" 1 eval \
    "$SCRATCH/digits" "data.val=$SCRATCH/letters/val"
train letters 1 "${digits[@]}" "data.dir=$SCRATCH/letters" "model.init=$SCRATCH/digits"
expect_text "rows of other names" 1 "the last layer, which has other classes, starts from scratch"

expect "export of folders 0, 1, 2" 0 run 1 export "$SCRATCH/digits" "$SCRATCH/digits.safetensors"
expect_error "eval of an export by other names" 65 "class a is not in $SCRATCH/digits.safetensors" \
    1 eval "$SCRATCH/digits" "data.val=$SCRATCH/letters/val" \
    --checkpoint "$SCRATCH/digits.safetensors"
expect "eval of an export" 0 run 1 eval "$SCRATCH/digits" \
    --checkpoint "$SCRATCH/digits.safetensors"
train of_export 1 "${digits[@]}" "data.dir=$SCRATCH/letters" \
    "model.init=$SCRATCH/digits.safetensors"
expect_text "rows of an export" 1 "the last layer, which has other classes, starts from scratch"

# Weights of others have no names, so a class that is missing here moves those behind it.
"$tools"/make_ckptmeta "$SCRATCH/digits.safetensors" "$SCRATCH/others.safetensors" convoy ""
mkdir "$SCRATCH/lacking"
cp -r "$SCRATCH/digits/train" "$SCRATCH/digits/val" "$SCRATCH/lacking"
rm -r "$SCRATCH"/lacking/*/1
train gap 1 "${digits[@]}" "data.dir=$SCRATCH/lacking" model.classes=3 \
    "model.init=$SCRATCH/others.safetensors"
expect_text "rows in order" 1 "its 3 classes have no names, the 2 of data.train have"
train no_gap 1 "${digits[@]}" "data.dir=$SCRATCH/digits" \
    "model.init=$SCRATCH/others.safetensors"
expect_text "rows of as many" 0 "have no names"
train_fails few 64 "data.train has 3 classes, but the network has 2 (model.classes), without" \
    1 "${digits[@]}" "data.dir=$SCRATCH/digits" model.classes=2

# ---- what is a point of the run's curve ----
foreign="recorded, but convoy report does not plot it"
expect "eval of another run's weights" 0 run 1 eval "$SCRATCH/five" --checkpoint "$SCRATCH/folder"
expect_text "eval of another run's weights" 1 "$foreign"
expect "eval of larger images" 0 run 1 eval "$SCRATCH/five" data.eval_resize=64 \
    optimizer.lr=1
expect_text "eval of larger images" 1 "warning: optimizer.lr: ignored by this command"
expect_text "eval of larger images" 1 "$foreign"
expect_error "a table over the list" 64 "--per-class: $data/val/images.csv is also read" 1 \
    eval "$SCRATCH/five" "data.val=$data/val/images.csv" --per-class "$data/val/images.csv"
expect "the same images by another name" 0 run 1 eval "$SCRATCH/five" "data.val=$data/../data/val"
expect_text "the same images by another name" 0 "$foreign"
expect "eval of a run that had no images to" 0 run 1 eval "$SCRATCH/folder" "data.val=$data/val"
expect_text "eval of a run that had no images to" 0 "$foreign"
curve() # RUN POINTS
{
    run 1 report "$SCRATCH/$1" > "$out" 2>&1 || broken_run "report of $1"
    local points
    points=$(grep -c "^$1,eval," "$SCRATCH/$1/report.csv")
    [[ $points == "$2" ]] || broken_run "$points evaluations of $1 in the report, not $2"
}
curve five 4 # two by the run, two of its own images
curve folder 1

# ---- the best is of one validation set, wherever that lies ----
anew="the best starts from scratch"
train five 1 "data.val=$data/../data/val" train.epochs=3
expect_text "the same validation set elsewhere" 0 "$anew"
train five 1 "data.val=$SCRATCH/part" train.epochs=4 data.allow_empty_classes=true
expect_text "another validation set" 1 "$anew"
expect_text "the best of another validation set" 1 "in epoch 4 (step "

# ---- weights of others ----
picture=$(find "$data/train" -name '*.jpg' | sort | head -1)
expect "export" 0 run 1 export "$SCRATCH/folder" "$SCRATCH/weights.safetensors"
printf '%s\r\n' "${names[@]}" > "$SCRATCH/names.txt"
foreign=("$SCRATCH/weights.safetensors" "$picture" --model resnet20
    --precision fp32 data.eval_resize=32 --set 'data.mean=[0.5]' --set 'data.std=[0.25]')
expect "predict RUN" 0 run 1 predict "$SCRATCH/folder" "$picture"
grep -v '^using' "$out" > "$SCRATCH/by_run"
expect "predict WEIGHTS" 0 run 1 predict "${foreign[@]:0:6}" --classes "$SCRATCH/names.txt"
cmp "$out" "$SCRATCH/by_run" || broken "predict by the run and by its weights differ"
expect "predict WEIGHTS by what its export says" 0 run 1 predict "${foreign[@]:0:6}"
cmp "$out" "$SCRATCH/by_run" || broken "predict by the run and by what its export says differ"
expect "eval of exported weights" 0 run 1 eval "$SCRATCH/folder" "data.val=$data/val" \
    --checkpoint "$SCRATCH/weights.safetensors" data.std=0.5 data.eval_resize=36
expect_text "eval of exported weights" 1 \
    "were exported with data.eval_resize=32 data.std=0.25,0.25,0.25"
"$tools"/make_ckptmeta "$SCRATCH/weights.safetensors" "$SCRATCH/bad.safetensors" images model.name=a
expect_error "settings of no image" 65 'bad.safetensors: metadata "images": "model.name=a" is not' \
    1 predict "$SCRATCH/bad.safetensors" "${foreign[@]:1}"
"$tools"/make_ckptmeta "$SCRATCH/weights.safetensors" "$SCRATCH/nameless.safetensors" convoy ""
foreign[0]=$SCRATCH/nameless.safetensors
expect "predict as published" 0 run 1 predict "${foreign[@]:0:4}"
expect_text "predict as published" 1 "nameless.safetensors: does not say how images are prepared"
expect "predict WEIGHTS without names" 0 run 1 predict "${foreign[@]}" --json --top 1
expect_text "predict WEIGHTS without names" 1 '{"class":"9","label":9,'
expect "predict at another size" 0 run 1 predict "${foreign[@]:0:4}" data.image_size=64 --csv
grep -v , "$out" && broken "predict at another size says more than its table"
# of 1,000 classes without names, as the published ones are
train thousand 1 train.max_steps=1 model.classes=1000
expect "export of 1000" 0 run 1 export "$SCRATCH/thousand" "$SCRATCH/own.safetensors"
"$tools"/make_ckptmeta "$SCRATCH/own.safetensors" "$SCRATCH/thousand.safetensors" convoy ""
for weights in thousand own; do
    foreign[0]=$SCRATCH/$weights.safetensors
    expect "predict of 1000 by $weights" 0 run 1 predict "${foreign[@]}" --top 1000 --csv
    cut -d, -f 3,4 "$out" | sed 1d | sort > "$SCRATCH/$weights.classes"
done
for class in tench,0 "horizontal bar,602" "toilet tissue,999"; do
    grep -qx "$class" "$SCRATCH/thousand.classes" || broken_run "ImageNet's classes: no $class"
    grep -qx "$class" "$SCRATCH/own.classes" && broken_run "own classes: there is $class"
done
grep -qx "${names[0]},0" "$SCRATCH/own.classes" || broken_run "own classes: no ${names[0]},0"
foreign[0]=$SCRATCH/nameless.safetensors
train grey 1 model.in_channels=1 train.max_steps=1
expect "export of grey" 0 run 1 export "$SCRATCH/grey" "$SCRATCH/grey.safetensors"
for fuse in none auto; do
    expect "weights of grey images" 0 run 1 eval "$SCRATCH/folder" "data.val=$data/val" \
        --checkpoint "$SCRATCH/grey.safetensors" "device.fuse=$fuse"
    expect_text "weights of grey images" 1 "conv1.weight: converted from 1 channels to 3"
done
expect "predict by weights of grey images" 0 run 1 predict "$SCRATCH/grey.safetensors" "$picture" \
    --model resnet20 --set model.in_channels=1 --set 'data.mean=[0.5]' --set 'data.std=[0.25]'
expect_error "weights without a network" 65 "not a Convoy checkpoint; for other weights" 1 \
    predict "$SCRATCH/weights.safetensors" "$picture"
expect_error "other weights" 65 "not the weights of resnet32: missing: layer1.3" 1 predict \
    "$SCRATCH/weights.safetensors" "$picture" --model resnet32
printf 'a\0b\n' > "$SCRATCH/zero.txt"
expect_error "names with a zero" 65 "zero.txt: not UTF-8 text" 1 predict "${foreign[@]}" \
    --classes "$SCRATCH/zero.txt"
printf '%s\r\n' "$picture" | expect "CRLF on standard input" 0 run 1 predict \
    "${foreign[0]}" - "${foreign[@]:2}"
expect_error "nothing on standard input" 65 "standard input: names no picture" 1 predict \
    "${foreign[0]}" - "${foreign[@]:2}" < /dev/null
printf 'a\nb' > "$SCRATCH/two.txt"
expect_error "fewer names" 65 "two.txt: 2 names, but " 1 predict "${foreign[@]}" \
    --classes "$SCRATCH/two.txt"
expect_error "no such network" 64 "--model: unknown network resnet21" 1 predict \
    "$SCRATCH/weights.safetensors" "$picture" --model resnet21
expect_error "no such weights" 64 "--model: resnet50 has no weights V7; there are IMAGENET1K_V1" 1 \
    predict "$SCRATCH/weights.safetensors" "$picture" --model resnet50:V7
expect_error "no such tag" 64 "--model: resnet18 has no weights a9; there are IMAGENET1K_V1, a1" 1 \
    predict "$SCRATCH/weights.safetensors" "$picture" --model resnet18.a9
expect_error "a name of timm" 64 "unknown network regnety_004; it is called regnet_y_400mf here" 1 \
    predict "$SCRATCH/weights.safetensors" "$picture" --model regnety_004
expect_error "a checkpoint" 64 "--model is not needed" 1 predict "$(latest folder)" "$picture" \
    --model resnet20
expect_error "classes of a run" 64 "--classes requires --model" 1 predict "$SCRATCH/folder" \
    "$picture" --classes "$SCRATCH/names.txt"
export CUDA_VISIBLE_DEVICES=
expect_error "no GPU" 78 "device.backend is cuda" 1 predict "$SCRATCH/folder" "$picture" \
    --backend cuda

# ---- for other programs ----
expect "export as ONNX" 0 run 1 export "$SCRATCH/folder" "$SCRATCH/pixels.onnx" --with-input
grep -qa normalised "$SCRATCH/pixels.onnx" || broken "--with-input does not normalise"
grep -qa '"bilinear"' "$SCRATCH/pixels.onnx" || broken "the file does not say how to scale pictures"
expect_error "--with-input" 64 "--with-input: only for an .onnx file" 1 export \
    "$SCRATCH/folder" "$SCRATCH/again.safetensors" --with-input
exit "$failed"
