#!/usr/bin/env bash
# weights.sh - EfficientNet trains the same however its batch is split, with all that it drops; its weights leave as safetensors under either
# names and as ONNX, and come back; predictions, tables of classes, and what is wrong with other files.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
net=(model.name=efficientnet_b0 "data.val=$SCRATCH/data/val" train.max_steps=3 train.eval_every=0)

# Dropout and stochastic depth are drawn for each image by its place: neither ranks nor micro-batches nor a stop change them.
frozen=(model.name=efficientnet_b0 model.bn=frozen model.stochastic_depth=0.5 train.max_steps=3)
train whole 1 "${frozen[@]}"
train micro 1 "${frozen[@]}" train.batch_per_rank=4 train.accumulate=2
near "1 x 8 and 1 x 4 accumulated twice" whole micro 1e-4
train kept 1 "${frozen[@]}" model.stochastic_depth=0 model.dropout=0
far "dropping something and nothing" whole kept 1e-3
if have_mpi; then
    train two 2 "${frozen[@]}" train.batch_per_rank=4
    near "1 x 8 and 2 x 4" whole two 1e-4
fi
train resumed 1 "${frozen[@]}" checkpoint.every_steps=1
mv "$SCRATCH/resumed/checkpoints" "$SCRATCH/all"
mkdir "$SCRATCH/resumed/checkpoints"
cp "$SCRATCH/all/step-00000002.safetensors" "$SCRATCH/resumed/checkpoints/"
train resumed 1 "${frozen[@]}" checkpoint.every_steps=1
expect_text "resumed" some "resumed from"
same "three steps and two and one" whole resumed

# Out and in again.
train run 1 "${net[@]}"
checkpoint=$(latest run)
for names in torchvision timm; do
    expect "export $names" 0 run 1 export "$checkpoint" "$SCRATCH/$names.safetensors" --names "$names"
    rm -rf "$SCRATCH/again"
    train again 1 "${net[@]}" "model.init=$SCRATCH/$names.safetensors" train.max_steps=1 optimizer.lr=0 optimizer.weight_decay=0
    expect_text "init $names" some "weights from $SCRATCH/$names.safetensors"
done
expect "export onnx" 0 run 1 export "$checkpoint" "$SCRATCH/run.onnx"
grep -q BatchNormalization "$SCRATCH/run.onnx" || broken "run.onnx holds no batch norm"

# evaluate FILE - prints loss and accuracy of FILE
evaluate()
{
    expect "eval $1" 0 run 1 eval "$SCRATCH/small.yaml" --checkpoint "$1" --set "run.dir=$SCRATCH/evals" --set model.name=efficientnet_b0 \
        --set "data.val=$SCRATCH/data/val" "${@:2}"
    grep -o 'loss [0-9.]*, top-1 [0-9.]* %' "$out"
}
want=$(evaluate "$checkpoint" --per-class "$SCRATCH/classes.csv" --confusion "$SCRATCH/confusion.csv")
[[ -n $want && $want == "$(evaluate "$SCRATCH/torchvision.safetensors")" ]] || broken "torchvision's names: another accuracy"
[[ $want == "$(evaluate "$SCRATCH/timm.safetensors")" ]] || broken "timm's names: another accuracy"
[[ $(awk -F, 'NR > 1 { n += $3; c += $4 } END { printf "%.2f", 100 * c / n }' "$SCRATCH/classes.csv") == "$(grep -o 'top-1 [0-9.]*' <<< "$want" | cut -d' ' -f2)" ]] ||
    broken "classes.csv does not add up to the accuracy: $want"
[[ $(awk -F, 'NR > 1 { for (i = 2; i <= NF; i++) n += $i } END { print n, NR - 1 }' "$SCRATCH/confusion.csv") == "70 10" ]] || broken "confusion.csv does not count 70 images of 10 classes"

# Pictures.
picture=$(find "$SCRATCH/data/val/circle" -name '*.jpg' | head -n 1)
echo "no picture" > "$SCRATCH/none.jpg"
expect "predict" 0 run 1 predict "$checkpoint" "$picture" --json
expect_text "predict" 1 '"file":"'
[[ $(grep -o '"probability"' "$out" | wc -l) == 5 ]] || broken "predict: not five classes"
expect "predict with one that is none" 65 run 1 predict "$checkpoint" "$SCRATCH/none.jpg" "$picture"
expect_one_error "predict" "$SCRATCH/none.jpg"
expect_text "predict" 1 "$picture"

# Another number of classes.
mkdir "$SCRATCH/pair"
cp -r "$SCRATCH"/data/train/{circle,star} "$SCRATCH/pair/"
train few 1 model.name=efficientnet_b0 "data.train=$SCRATCH/pair" train.max_steps=1 "model.init=$SCRATCH/timm.safetensors"
expect_text "fine-tuning" some "the last layer, of another number of classes there, starts afresh"

# What cannot be used.
expect_error "eval of another number of classes" 65 "weights for 10 classes, but there are 12 here" 1 eval "$SCRATCH/small.yaml" \
    --checkpoint "$SCRATCH/timm.safetensors" --set model.name=efficientnet_b0 --set model.classes=12 --set data.format=synthetic --set "run.dir=$SCRATCH/evals"
train_fails other 65 "not the weights of resnet20: missing: conv1.weight" 1 "model.init=$SCRATCH/timm.safetensors"
head -c 100000 "$SCRATCH/timm.safetensors" > "$SCRATCH/cut.safetensors"
train_fails cut 65 "$SCRATCH/cut.safetensors" 1 model.name=efficientnet_b0 "model.init=$SCRATCH/cut.safetensors"
printf '\377\377\377\377\377\377\377\177{}' > "$SCRATCH/lies.safetensors"
train_fails lies 65 "$SCRATCH/lies.safetensors: header of" 1 model.name=efficientnet_b0 "model.init=$SCRATCH/lies.safetensors"
expect_error "export of no checkpoint" 65 "not a convoy checkpoint" 1 export "$SCRATCH/timm.safetensors" "$SCRATCH/x.onnx"
expect_error "export to an unknown kind" 64 "ends in neither" 1 export "$checkpoint" "$SCRATCH/x.pth"
expect_error "export under unknown names" 64 "neither torchvision nor timm" 1 export "$checkpoint" "$SCRATCH/x.safetensors" --names keras
train_fails unknown 64 "did you mean efficientnet_b0" 1 model.name=efficientnet-b0
train_fails dropless 64 "has neither stochastic depth nor dropout" 1 model.dropout=0.5
exit "$failed"
