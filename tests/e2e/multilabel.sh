#!/usr/bin/env bash
# multilabel.sh - lists in which images have any number of labels: trained, evaluated by mean
# average precision on any ranks, continued, predicted with thresholds, exported; what does not go
# together with them is refused in one line.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 8 4
make_config

# Two attributes of the pictures: dots have both, squares and others none.
list()
{
    local folder class labels file
    for folder in "$SCRATCH/data/$1"/*; do
        class=$(basename "$folder") labels=
        [[ $class == @(circle|ring|dots) ]] && labels=round
        [[ $class == @(rows|columns|checkers|dots) ]] && labels+=${labels:+|}texture
        for file in "$folder"/*.jpg; do echo "data/$1/$class/${file##*/},$labels"; done
    done
}
{ echo "path,labels"; list train; } > "$SCRATCH/train.csv"
# the same attributes as columns, and one that no picture has
{
    echo "path,round,texture,unseen"
    list val | awk -F, -v OFS=, '{ print $1, ($2 ~ /round/), ($2 ~ /texture/) ? 1 : "", 0 }'
} > "$SCRATCH/unseen.csv"
cut -d, -f1-3 "$SCRATCH/unseen.csv" > "$SCRATCH/val.csv"

multi=("data.train=$SCRATCH/train.csv" data.labels=multi train.loss=bce schedule.name=constant)
one=("${multi[@]}" train.max_steps=3)

# map RUN - of the last evaluation.
map()
{
    field "$1" eval map
}

# ---- training, evaluation ----
# A score of one kind is not compared with one of the other.
sed 's/|.*//; /,$/d' "$SCRATCH/train.csv" > "$SCRATCH/first.csv"
first=("${multi[@]}" "data.train=$SCRATCH/first.csv" "data.val=$SCRATCH/first.csv")
train kinds 1 "${first[@]}" train.max_steps=2
train kinds 1 "${first[@]}" train.max_steps=4 data.labels=single
expect_text "another kind of labels" 1 "the best starts from scratch"
sed '2s/0$/1/' "$SCRATCH/unseen.csv" > "$SCRATCH/other.csv"
train_fails other 65 "class unseen is not in data.train" 1 "${multi[@]}" \
    "data.val=$SCRATCH/other.csv"
whole=("${multi[@]}" "data.val=$SCRATCH/val.csv" train.epochs=3 ema.decay=0.8
    "monitor.prometheus=$SCRATCH/whole.prom" monitor.every_s=1)
train whole 1 "${whole[@]}"
expect_text "training set" 1 ": 80 images of 2 classes, 40 for validation"
[[ $(grep -cE ' eval on 40 images: loss [0-9.]+, mAP [0-9.]+ % of 2 classes$' "$out") == 3 ]] ||
    broken_run "evaluation: not three lines with a mAP"
expect_text "best" 1 "best mAP "
averaged='"ema_loss":[0-9.e+-]+,"ema_map":0\.[0-9]+,"ema_best":true,"map_classes":2'
grep -qE "\"map\":0\.[0-9]+,$averaged" "$SCRATCH/whole/metrics.jsonl" ||
    broken "there is no mAP of averaged weights"
grep -q '"top[15]"' "$SCRATCH/whole/metrics.jsonl" && broken "there is a top1"
grep -qE '^convoy_eval_map_ratio\{.*\} 0\.' "$SCRATCH/whole.prom" || broken "Prometheus: no mAP"
grep -q 'top1' "$SCRATCH/whole.prom" && broken "Prometheus has a top1"
expect "top" 0 run 1 top "$SCRATCH/whole" --once
expect_text "top" 1 "evaluation  mAP "
expect "report" 0 run 1 report "$SCRATCH/whole" --out "$SCRATCH/report.html"
for text in "best mAP %" "Evaluation: mAP<" "Evaluation: mAP of averaged weights"; do
    grep -qF "$text" "$SCRATCH/report.html" || broken "the report has no '$text'"
done
sound_tables "$SCRATCH/report.html"
grep -qE 'top-[15]' "$SCRATCH/report.html" && broken "the report has a top-1"
head -n 1 "$SCRATCH/report.csv" | grep -q ',map$' || broken "the report's CSV has no mAP"
expect "inspect checkpoint" 0 run 1 inspect checkpoint "$SCRATCH/whole"
expect_text "inspect checkpoint" 1 "best_map 0."

# best goes by mAP
best=$(awk 'index($0, "\"event\":\"eval\"") && match($0, /"ema_map":[^,]+/) {
        v = substr($0, RSTART + 10, RLENGTH - 10); match($0, /"step":[0-9]+/)
        if (v + 0 > most) { most = v + 0; step = substr($0, RSTART + 7, RLENGTH - 7) }
    } END { print step }' "$SCRATCH/whole/metrics.jsonl")
[[ $(readlink "$SCRATCH/whole/checkpoints/best") == *-$(printf '%08d' "$best").safetensors ]] ||
    broken "best is not of step $best"

train parts 1 "${whole[@]}" train.max_steps=13
train parts 1 "${whole[@]}"
same "30 steps and 13 + 17" whole parts
[[ $(map whole) == "$(map parts)" ]] || broken "continued: mAP $(map parts), not $(map whole)"

# A batch of one image is computed alike on any rank.
evaluate=(eval "$SCRATCH/whole" --raw train.batch_per_rank=1)
expect "eval" 0 run 1 "${evaluate[@]}" --per-class "$SCRATCH/one.csv"
alone=$(map whole)
grep -q '^label,class,images,average_precision$' "$SCRATCH/one.csv" || broken "--per-class: header"
grep -qE '^1,texture,16,[01]\.[0-9]{6}$' "$SCRATCH/one.csv" || broken "--per-class: texture"
mean=$(awk -F, 'NR > 1 { sum += $4; n++ } END { printf "%.5f", sum / n }' "$SCRATCH/one.csv")
[[ $(printf '%.5f' "$alone") == "$mean" ]] || broken "mAP is $alone, the mean of classes $mean"
if have_mpi; then
    for ranks in 2 3; do
        expect "eval on $ranks" 0 run $ranks "${evaluate[@]}" --per-class "$SCRATCH/$ranks.csv"
        [[ $(map whole) == "$alone" ]] || broken "mAP on $ranks ranks: $(map whole), not $alone"
        cmp -s "$SCRATCH/one.csv" "$SCRATCH/$ranks.csv" || broken "--per-class on $ranks ranks"
    done
    train two 2 "${one[@]}" "data.val=$SCRATCH/val.csv" train.batch_per_rank=4 model.bn=frozen
    train single 1 "${one[@]}" "data.val=$SCRATCH/val.csv" model.bn=frozen
    near "one rank and two" single two 1e-4
fi

# A class without an image is left out, of which the mean is told.
train unseen 1 "${one[@]}" "data.val=$SCRATCH/unseen.csv" "data.train=$SCRATCH/unseen.csv"
expect_text "a class without images" 1 "data.val: no image has 1 of 3 classes (unseen); mAP leaves"
expect_text "a class without images" 1 \
    "data.train: no image has 1 of 3 classes (unseen); these will not be learnt"
expect_field "a class without images" unseen eval map_classes 2

# ---- each changes a run ----
train plain 1 "${one[@]}"
differs()
{
    train changed 1 "${one[@]}" "$@"
    far "$*" plain changed 1e-5
    rm -rf "$SCRATCH/changed"
}
printf '1\n3\n' > "$SCRATCH/weights"
differs train.label_smoothing=0.2
differs data.mixup=1
differs data.cutmix=1
differs data.order=balanced
differs train.class_weights=auto
differs "train.class_weights=$SCRATCH/weights"
differs train.bce_sum=true

# ---- held out, index, looking ----
train held 1 "${one[@]}" data.val_split=0.25
expect_text "held out" 1 ": 60 images of 2 classes, 20 for validation"
expect "inspect dataset" 0 run 1 inspect dataset "$SCRATCH/train.csv" --labels multi
expect_text "inspect dataset" 1 "round                    24"
expect "index" 0 run 1 index "$SCRATCH/train.csv" --labels multi --out "$SCRATCH/made.index"
expect "index" 0 run 1 index "$SCRATCH/train.csv" --labels multi --out "$SCRATCH/made.index" --check
settings page "${multi[@]}" "data.val=$SCRATCH/val.csv" data.mixup=1
expect "preview" 0 run 1 preview "${sets[@]}" --out "$SCRATCH/page.html"
grep -qE '[0-9]+ % (round, texture|texture|round|no label), [0-9]+ % ' "$SCRATCH/page.html" ||
    broken "the preview has no mixed labels"
settings bench "${multi[@]}"
expect "bench loader" 0 run 1 bench loader "${sets[@]}" --steps 1
expect "bench loader --crc" 0 run 1 bench loader "${sets[@]}" --crc --steps 1

# ---- predictions ----
picture=$(printf '%s\n' "$SCRATCH"/data/val/dots/*.jpg | head -n 1)
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$picture" --threshold 0
expect_text "predict" 1 " %  round"
expect_text "predict" 1 " %  texture"
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$picture" --threshold 0 --top 1
[[ $(grep -c " %  " "$out") == 1 ]] || broken_run "predict --top 1: not one class"
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$picture" --threshold 1
expect_text "predict" 1 "  no class above 1"
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$picture" --threshold 1 --csv
expect_text "predict --csv" 1 "$picture,0,,,"
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$picture" --threshold 1 --json
expect_text "predict --json" 1 '"top":[]}'
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$SCRATCH/data/val" --threshold 0 --csv
awk -F, 'NR > 1 { n[$1]++; sum[$1] += $5; if ($5 <= 0 || $5 >= 1) bad = 1 }
    END { for (f in n) { rows++; bad = bad || n[f] != 2; apart += sum[f] < 0.999 || sum[f] > 1.001 }
          exit bad || rows != 40 || apart < 20 }' "$out" ||
    broken_run "predict: not two probabilities for each picture, or they add up to 1"

# ---- export ----
expect "export" 0 run 1 export "$SCRATCH/whole" "$SCRATCH/w.safetensors"
expect "predict by weights" 0 run 1 predict "$SCRATCH/w.safetensors" "$picture" --model resnet20 \
    --precision fp32 --threshold 0 --csv
cp "$out" "$SCRATCH/by_weights"
expect "predict" 0 run 1 predict "$SCRATCH/whole" "$picture" --threshold 0 --csv
cmp -s "$out" "$SCRATCH/by_weights" || broken_run "exported weights predict otherwise"
expect "export --threshold" 0 run 1 export "$SCRATCH/whole" "$SCRATCH/w.safetensors" --threshold 1
expect "predict" 0 run 1 predict "$SCRATCH/w.safetensors" "$picture" --model resnet20
expect_text "the threshold of the file" 1 "  no class above 1"
expect "export" 0 run 1 export "$SCRATCH/whole" "$SCRATCH/w.onnx" --threshold 0.25
grep -aq 'labels.*"multi"' "$SCRATCH/w.onnx" || broken "the ONNX file does not say multi"
grep -aq 'threshold.*0\.25' "$SCRATCH/w.onnx" || broken "the ONNX file has no threshold"

# ---- refused, in one line ----
train_fails loss 64 "data.labels requires train.loss: bce (it is cross_entropy)" 1 \
    "${multi[@]}" train.loss=cross_entropy
train_fails folder 64 "data.labels: multi requires a list of images; this is format imagefolder" 1 \
    "${multi[@]}" "data.train=$SCRATCH/data/train"
train_fails format 64 "data.labels requires data.format: auto, list or synthetic" 1 \
    "${multi[@]}" data.format=webdataset
grep -v ',$' "$SCRATCH/train.csv" > "$SCRATCH/full.csv"
train_fails single 65 "round|texture: several labels per image require data.labels: multi" 1 \
    "${multi[@]}" data.labels=single "data.train=$SCRATCH/full.csv"
train_fails empty 65 "this row has no class (allowed with data.labels: multi)" 1 \
    "${multi[@]}" data.labels=single
train_fails columns 65 "a column per class requires data.labels: multi" 1 \
    "${multi[@]}" data.labels=single "data.train=$SCRATCH/unseen.csv"
for table in --confusion --gallery; do
    expect_error "$table" 64 "$table: requires data.labels: single" 1 eval "$SCRATCH/whole" \
        $table "$SCRATCH/t.html"
done
expect_error "pack" 64 "--labels multi: shards hold one label per image" 1 pack \
    "$SCRATCH/train.csv" "$SCRATCH/shards" --labels multi
expect_error "pack" 65 "several labels per image require data.labels: multi" 1 pack \
    "$SCRATCH/full.csv" "$SCRATCH/shards"
settings folders "data.train=$SCRATCH/data/train" train.max_steps=1
expect "train folders" 0 run 1 train "${sets[@]}"
expect_error "threshold" 64 "was trained with one label per image" 1 predict "$SCRATCH/folders" \
    "$picture" --threshold 0.5
expect_error "threshold" 64 "was trained with one label per image" 1 export "$SCRATCH/folders" \
    "$SCRATCH/folders.onnx" --threshold 0.5
exit "$failed"
