#!/usr/bin/env bash
# weights.sh - EfficientNet trains the same however its batch is split, with all that it drops; its
# weights leave as safetensors under either names and as ONNX, and come back; predictions, tables of
# classes, and what is wrong with other files.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
net=(model.name=efficientnet_b0 "data.val=$SCRATCH/data/val" train.max_steps=3 train.eval_every=0)

# Dropout and stochastic depth are drawn for each image by its place: neither ranks nor
# micro-batches nor a stop change them.
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
train resumed 1 "${frozen[@]}" train.max_steps=4 "model.init=$(latest whole)"
expect_text "weights for a run that goes on" 1 "model.init is not used: the run continues from"

# Out and in again.
train run 1 "${net[@]}"
checkpoint=$(latest run)
for names in torchvision timm; do
    expect "export $names" 0 run 1 export "$checkpoint" "$SCRATCH/$names.safetensors" \
        --names "$names"
    rm -rf "$SCRATCH/again"
    train again 1 "${net[@]}" "model.init=$SCRATCH/$names.safetensors" train.max_steps=1 \
        optimizer.lr=0 optimizer.weight_decay=0
    expect_text "init $names" some "weights from $SCRATCH/$names.safetensors"
done
expect "export onnx" 0 run 1 export "$checkpoint" "$SCRATCH/run.onnx"
grep -q BatchNormalization "$SCRATCH/run.onnx" || broken "run.onnx holds no batch norm"
# What has to be known besides the graph, as JSON; and everything tells the program that wrote it.
classes=$(ls "$SCRATCH/data/val" | sed 's/.*/"&"/' | paste -sd ,)
for fact in "[$classes]" image_size mean "[0.5,0.5,0.5]" std; do
    grep -qaF -- "$fact" "$SCRATCH/run.onnx" || broken "run.onnx does not tell $fact"
done
version=$("$CONVOY" --version | sed -n '1s/^convoy //p')
grep -qaF -- "$version" "$SCRATCH/run.onnx" || broken "run.onnx does not tell $version"
grep -m 1 '"event":"start"' "$SCRATCH/run/metrics.jsonl" | grep -qF "\"version\":\"$version\"" ||
    broken "the start record does not tell $version"
expect "inspect checkpoint" 0 run 1 inspect checkpoint "$checkpoint"
expect_text "inspect checkpoint" 1 "written by convoy $version"

# evaluate FILE - prints loss and accuracy of FILE
evaluate()
{
    expect "eval $1" 0 run 1 eval "$SCRATCH/small.yaml" --checkpoint "$1" \
        --set "run.dir=$SCRATCH/evals" --set model.name=efficientnet_b0 \
        --set "data.val=$SCRATCH/data/val" "${@:2}"
    grep -o 'loss [0-9.]*, top-1 [0-9.]* %' "$out"
}
want=$(evaluate "$checkpoint" --per-class "$SCRATCH/classes.csv" \
    --confusion "$SCRATCH/confusion.csv")
[[ -n $want && $want == "$(evaluate "$SCRATCH/torchvision.safetensors")" ]] ||
    broken "torchvision's names: another accuracy"
[[ $want == "$(evaluate "$SCRATCH/timm.safetensors")" ]] || broken "timm's names: another accuracy"
[[ $(awk -F, 'NR > 1 { n += $3; c += $4 } END { printf "%.2f", 100 * c / n }' \
    "$SCRATCH/classes.csv") == "$(grep -o 'top-1 [0-9.]*' <<< "$want" | cut -d' ' -f2)" ]] ||
    broken "classes.csv does not add up to the accuracy: $want"
[[ $(awk -F, 'NR > 1 { for (i = 2; i <= NF; i++) n += $i } END { print n, NR - 1 }' \
    "$SCRATCH/confusion.csv") == "70 10" ]] ||
    broken "confusion.csv does not count 70 images of 10 classes"

# Pictures.
picture=$(find "$SCRATCH/data/val/circle" -name '*.jpg' | head -n 1)
echo "no picture" > "$SCRATCH/none.jpg"
expect "predict" 0 run 1 predict "$checkpoint" "$picture" --json
expect_text "predict" 1 '"file":"'
[[ $(grep -o '"probability"' "$out" | wc -l) == 5 ]] || broken "predict: not five classes"
expect "predict with one that is none" 65 run 1 predict "$checkpoint" "$SCRATCH/none.jpg" "$picture"
expect_one_error "predict" "$SCRATCH/none.jpg"
expect_text "predict" 1 "$picture"

# Folders, lists of paths, any number of classes, a table.
mkdir -p "$SCRATCH/album/a/b" "$SCRATCH/album/.hidden" "$SCRATCH/nothing"
for name in a/2.jpg a/b/1.JPG z.jpg .hidden/3.jpg; do cp "$picture" "$SCRATCH/album/$name"; done
echo "no picture" > "$SCRATCH/album/notes.txt"
expect "predict a folder" 0 run 1 predict "$checkpoint" "$SCRATCH/album" --top 2 --csv
[[ $(cut -d, -f1,2 "$out" | tr '\n' ' ') == "file,place $SCRATCH/album/a/2.jpg,1 \
$SCRATCH/album/a/2.jpg,2 $SCRATCH/album/a/b/1.JPG,1 $SCRATCH/album/a/b/1.JPG,2 \
$SCRATCH/album/z.jpg,1 $SCRATCH/album/z.jpg,2 " ]] || broken_run "predict a folder: other files"
expect "predict all classes" 0 run 1 predict "$checkpoint" "$picture" --top 100 --csv
[[ $(awk -F, 'NR > 1 { n++; if ($5 > last && n > 1) n = -99; last = $5; sum += $5 }
    END { printf "%d %.4f", n, sum }' "$out") == "10 1.0000" ]] ||
    broken_run "predict all classes: not ten in order, of one in all"
printf '%s\n\n%s\n%s' "$picture" "$SCRATCH/none.jpg" "$picture" > "$SCRATCH/list"
from_list()
{
    run 1 predict "$checkpoint" - --json < "$SCRATCH/list"
}
expect "predict a list" 65 from_list
expect_text "predict a list" 2 "{\"file\":\"$picture\""
expect_one_error "predict a list" "$SCRATCH/none.jpg"
expect_error "predict an empty folder" 65 "$SCRATCH/nothing: no pictures in this folder" \
    1 predict "$checkpoint" "$SCRATCH/nothing"
expect_error "predict nothing of a picture" 64 "--top 0" 1 predict "$checkpoint" "$picture" --top 0
expect_error "predict in two forms" 64 "give either --json or --csv" 1 predict "$checkpoint" \
    "$picture" --csv --json

# Tables go where their names lead, and what cannot be written to is said before the work. A run
# that is still writing to its folder does not cost the result.
mkfifo "$SCRATCH/fifo"
cat "$SCRATCH/fifo" > "$SCRATCH/through" &
ln -s away.csv "$SCRATCH/link.csv"
exec 9>> "$SCRATCH/evals/metrics.jsonl"
flock 9
[[ $(evaluate "$checkpoint" --per-class "$SCRATCH/fifo" \
    --confusion "$SCRATCH/link.csv") == "$want" ]] || broken "no result beside another run"
expect_text "eval beside another run" \
    1 "another convoy is writing to this run folder: the result is only printed"
exec 9>&-
wait $!
cmp "$SCRATCH/through" "$SCRATCH/classes.csv" || broken "a table did not go through a FIFO"
cmp "$SCRATCH/away.csv" "$SCRATCH/confusion.csv" || broken "a table did not go where a link leads"
[[ -p $SCRATCH/fifo && -L $SCRATCH/link.csv ]] || broken "a FIFO or a link was replaced"
expect_error "eval with a table nowhere" 74 "$SCRATCH/nowhere/x.csv: cannot write" \
    1 eval "$SCRATCH/small.yaml" --checkpoint "$checkpoint" \
    --set model.name=efficientnet_b0 --set "data.val=$SCRATCH/data/val" \
    --per-class "$SCRATCH/nowhere/x.csv"

# Folders of other names, and of the same number: known to a checkpoint and to what it exports.
cp -r "$SCRATCH/data/val" "$SCRATCH/renamed"
mv "$SCRATCH/renamed/star" "$SCRATCH/renamed/su"$'\r'n
expect_error "eval of other names" 65 "class su\\rn is not in " 1 eval \
    "$SCRATCH/small.yaml" --checkpoint "$checkpoint" --set model.name=efficientnet_b0 \
    --set "data.val=$SCRATCH/renamed"
"$tools"/make_ckptmeta "$SCRATCH/timm.safetensors" "$SCRATCH/again.safetensors" class_names \
    "$(find "$SCRATCH/renamed" -mindepth 1 -type d -printf '%f\n' | LC_ALL=C sort)"
evaluate "$SCRATCH/again.safetensors" --set "data.val=$SCRATCH/renamed" \
    --per-class "$SCRATCH/renamed.csv" > "$SCRATCH/again.txt"
grep -qF '8,su\rn,' "$SCRATCH/renamed.csv" || broken "a carriage return in a name is not shown"

# What leaves must not land on what it comes from.
for name in "$checkpoint" "$SCRATCH/run/checkpoints/latest"; do
    ln -sf "$checkpoint" "$SCRATCH/self.safetensors"
    expect_error "export onto itself" 64 "is also read" 1 export "$name" \
        "$SCRATCH/self.safetensors"
    cmp "$checkpoint" "$SCRATCH/self.safetensors" || broken "export changed its checkpoint"
done

# TensorFlow's variants under torchvision's names: out with a warning, but not in.
train tf 1 "${net[@]}" model.name=tf_efficientnet_b0 train.max_steps=1
expect "export of tf" 0 run 1 export "$(latest tf)" "$SCRATCH/tf.safetensors" --names torchvision
expect_text "export of tf" 1 "torchvision's efficientnet_b0 loads these weights but pads"
train_fails astray 65 "these are weights of efficientnet_b0 (model.name=efficientnet_b0)" 1 \
    model.name=tf_efficientnet_b0 "model.init=$SCRATCH/tf.safetensors"

# Networks that have either library's names.
for name in mobilenet_v2 regnet_x_400mf; do
    train "$name" 1 "${net[@]}" "model.name=$name" train.max_steps=1
    for names in torchvision timm; do
        expect "export of $name" 0 run 1 export "$(latest "$name")" \
            "$SCRATCH/$name.$names.safetensors" --names "$names"
        train "$name.$names" 1 "${net[@]}" "model.name=$name" train.max_steps=1 \
            "model.init=$SCRATCH/$name.$names.safetensors"
    done
    same "$name under either names" "$name.torchvision" "$name.timm"
done

# Weights so large that nothing comes out (inputs of 1e6, and a step of 1e6 times their gradient),
# and weights that are no numbers themselves, which no run would save.
train wild 1 model.name=mlp data.std=1e-6 optimizer.lr=1e6 train.max_steps=1 train.eval_every=0
large=$SCRATCH/wild/checkpoints/step-00000001.safetensors
wild=(eval "$SCRATCH/small.yaml" --set model.name=mlp --set data.std=1e-6
    --set "data.val=$SCRATCH/data/val" --set "run.dir=$SCRATCH/evals" --checkpoint)
expect "eval of large weights" 0 run 1 "${wild[@]}" "$large"
expect_text "eval of large weights" 1 "the loss is not finite"
expect_error "predict by large weights" 65 "the network produced NaN or infinity" \
    1 predict "$large" "$picture" "$picture"
expect_text "predict by large weights: once" 1 "the same for 1 more"
nan=$SCRATCH/nan.safetensors
"$tools"/make_ckptmeta "$large" "$nan" bias fc1.bias || broken "cannot make weights of no numbers"
expect_error "eval of no numbers" 65 "is NaN or infinite" 1 "${wild[@]}" "$nan"
expect_error "predict by no numbers" 65 "is NaN or infinite" 1 predict "$nan" "$picture"
expect_error "export of no numbers" 65 "is NaN or infinite" 1 export "$nan" "$SCRATCH/wild.onnx"

# Another number of classes.
mkdir "$SCRATCH/pair"
cp -r "$SCRATCH"/data/train/{circle,star} "$SCRATCH/pair/"
train few 1 model.name=efficientnet_b0 "data.train=$SCRATCH/pair" train.max_steps=1 \
    "model.init=$SCRATCH/timm.safetensors"
expect_text "fine-tuning" 1 "in the last layer 2 classes are matched by name, 0 start from scratch"

# What cannot be used.
expect_error "eval of another number of classes" 65 \
    "has weights for 10 classes, but model.classes is 12" 1 eval "$SCRATCH/small.yaml" \
    --checkpoint "$SCRATCH/timm.safetensors" --set model.name=efficientnet_b0 \
    --set model.classes=12 --set data.format=synthetic --set "run.dir=$SCRATCH/evals"
train_fails other 65 "not the weights of resnet20: missing: conv1.weight" \
    1 "model.init=$SCRATCH/timm.safetensors"
head -c 100000 "$SCRATCH/timm.safetensors" > "$SCRATCH/cut.safetensors"
train_fails cut 65 "$SCRATCH/cut.safetensors" 1 model.name=efficientnet_b0 \
    "model.init=$SCRATCH/cut.safetensors"
printf '\377\377\377\377\377\377\377\177{}' > "$SCRATCH/lies.safetensors"
train_fails lies 65 "$SCRATCH/lies.safetensors: not a safetensors file" \
    1 model.name=efficientnet_b0 "model.init=$SCRATCH/lies.safetensors"
expect_error "export of no checkpoint" 65 "not a convoy checkpoint" \
    1 export "$SCRATCH/timm.safetensors" "$SCRATCH/x.onnx"
expect_error "export to an unknown kind" 64 "must end in .safetensors or .onnx" 1 export \
    "$checkpoint" "$SCRATCH/x.pth"
expect_error "export under unknown names" 64 "it is one of torchvision, timm" 1 export \
    "$checkpoint" "$SCRATCH/x.safetensors" --names keras
train_fails unknown 64 "did you mean efficientnet_b0" 1 model.name=efficientnet-b0
train_fails dropless 64 "model.dropout are not supported" 1 model.name=mlp \
    model.dropout=0.5
exit "$failed"
