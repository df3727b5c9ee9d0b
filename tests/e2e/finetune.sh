#!/usr/bin/env bash
# finetune.sh - what people use on folders of their own: data.dir, images held out by
# data.val_split, balanced classes, early stopping. All of it is the same on any ranks and goes on
# exactly where a run was stopped.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 8 3
make_config
data=$SCRATCH/data

# ---- one folder of both sets ----
train sets 1 "data.train=" "data.dir=$data" train.max_steps=1
expect_text "data.dir" 1 ": 80 images of 10 classes, 30 for validation"
train_fails both 64 "data.dir sets data.train and data.val" 1 "data.train=$data/train" \
    "data.dir=$data"

# ---- held out ----
split=(data.val_split=0.25 train.epochs=2 schedule.name=constant)
train whole 1 "${split[@]}"
expect_text "held out" 1 ": 60 images of 10 classes, 20 for validation"
train parts 1 "${split[@]}" train.max_steps=3
train parts 1 "${split[@]}"
same "held out: in one piece and in two" whole parts
expect "eval" 0 run 1 eval "$SCRATCH/whole" --checkpoint "$(latest whole)"
expect_text "eval of held out images" 1 "eval on 20 images: "
expect "eval" 0 run 1 eval "$SCRATCH/whole" "data.val=$data/val"
expect_text "eval of other images" 1 "eval on 30 images: "
run 1 pack "$data/train" "$SCRATCH/shards" > "$out" 2>&1 || broken_run "pack"
train packed 1 "${split[@]}" "data.train=$SCRATCH/shards"
same "held out of a folder and of shards" whole packed
if have_mpi; then
    train two 2 "${split[@]}" train.batch_per_rank=4 model.bn=frozen
    train one 1 "${split[@]}" model.bn=frozen
    near "held out: one rank and two" one two 1e-4
fi
train_fails beside 64 "data.val_split cannot be combined with data.val" 1 \
    "${split[@]}" "data.val=$data/val"
train_fails formats 64 "format cifar does not support" 1 "${split[@]}" data.format=cifar
expect "inspect memory" 0 run 1 inspect memory --verbose "$SCRATCH/whole" data.train=nowhere
expect_text "inspect memory" some "evaluation"
expect "inspect config" 0 run 1 inspect config "$SCRATCH/whole"
expect "bench step" 0 run 1 bench step "$SCRATCH/whole" --steps 1

# ---- balanced: nine classes of one image, one of eight ----
cp -r "$data" "$SCRATCH/few"
for class in "$SCRATCH"/few/train/*; do
    [[ $class == */train/*0* ]] || find "$class" -name '*.jpg' | sort | tail -n +2 | xargs rm
done
few=("data.train=$SCRATCH/few/train" train.epochs=6 train.batch_per_rank=8 model.bn=frozen
    schedule.name=constant log.every=1)
train shuffled 1 "${few[@]}"
train balanced 1 "${few[@]}" data.order=balanced
cmp -s <(losses shuffled) <(losses balanced) && broken "data.order changes nothing"
train pieces 1 "${few[@]}" data.order=balanced train.max_steps=5
train pieces 1 "${few[@]}" data.order=balanced
same "balanced: in one piece and in two" balanced pieces
if have_mpi; then
    # The weights stay as they are, so that losses are of the same images or far from it: what
    # rounding makes of weights in 14 steps has no bound.
    still=("${few[@]}" optimizer.lr=1e-30 optimizer.weight_decay=0)
    train still 1 "${still[@]}" data.order=balanced
    train ranks 2 "${still[@]}" data.order=balanced train.batch_per_rank=4
    train others 1 "${still[@]}"
    follows "balanced: one rank and two" still ranks 1e-5
    unlike "balanced and shuffled" still others 1e-3
fi
train_fails repeated 64 \
    "data.order: balanced cannot be combined with data.repeated_augmentation" 1 \
    data.order=balanced data.repeated_augmentation=2

# ---- early stopping: with a rate of next to nothing the first evaluation stays the best ----
stop=("data.val=$data/val" train.epochs=9 train.patience=2 optimizer.lr=1e-30
    optimizer.weight_decay=0 model.bn=frozen)
evals()
{
    grep -c '"event": *"eval"' "$SCRATCH/$1/metrics.jsonl"
}
train early 1 "${stop[@]}"
expect_text "early stopping" 1 "train.patience: 2 evaluations without improvement on"
[[ $(evals early) == 3 ]] || broken "$(evals early) evaluations, expected 3"
train early 1 "${stop[@]}"
expect_text "begun again" 1 "nothing to do: the run already has 30 of 90 steps, and train.patience"
# stopped in between, it remembers how many were no better
train late 1 "${stop[@]}" train.max_steps=20
train late 1 "${stop[@]}"
[[ $(latest late) == *00000030.safetensors ]] || broken "a resumed run ended at $(latest late)"
train early 1 "${stop[@]}" train.patience=3
[[ $(latest early) == *00000040.safetensors ]] || broken "more patience ended at $(latest early)"
if have_mpi; then
    train together 2 "${stop[@]}" train.batch_per_rank=4
    [[ $(latest together) == *00000030.safetensors ]] ||
        broken "two ranks ended at $(latest together)"
fi
# ---- a page about an evaluation ----
gallery()
{
    expect "gallery on $1" 0 run "$1" eval "$SCRATCH/whole" "data.val=$data/val" \
        --checkpoint "$(latest whole)" --gallery "$SCRATCH/$1.html" --per-class "$SCRATCH/$1.csv"
}
gallery 1
sound_tables "$SCRATCH/1.html"
for text in "Evaluation of resnet20" "expected calibration error" "Confusion matrix" \
    "The most confident mistakes" "</html>"; do
    grep -qF "$text" "$SCRATCH/1.html" || broken "the page does not hold '$text'"
done
wrong=$(awk -F, 'NR > 1 { wrong += $3 - $4 } END { print wrong }' "$SCRATCH/1.csv")
((wrong > 0)) || broken "no mistake to be shown"
[[ $(grep -o 'src="data:image/png;base64,' "$SCRATCH/1.html" | wc -l) == "$wrong" ]] ||
    broken "not every one of $wrong mistakes has its image"
! grep -qiE '<script|https?://[^w]' "$SCRATCH/1.html" || broken "the page needs more than itself"
if have_mpi; then
    gallery 2
    cmp -s "$SCRATCH/1.csv" "$SCRATCH/2.csv" || broken "two ranks count other images"
    # captions, whose probabilities depend on the batch in the last bits
    cmp -s <(grep -o '<br>is .*' "$SCRATCH/1.html" | sed 's/([^)]*)//' | sort) \
        <(grep -o '<br>is .*' "$SCRATCH/2.html" | sed 's/([^)]*)//' | sort) ||
        broken "two ranks show other mistakes"
fi
expect_error "two tables in one file" 64 "is also written by --per-class" 1 eval \
    "$SCRATCH/whole" --gallery "$SCRATCH/both" --per-class "$SCRATCH/both"
expect_error "a page that cannot be written" 74 "nowhere" 1 eval "$SCRATCH/whole" \
    --gallery "$SCRATCH/nowhere/page.html"

# ---- what a run would be shown ----
pictures() # FILE - one a line, without their names
{
    grep -o 'src="data:image/png;base64,[^"]*' "$1" | sort -u
}
settings shown "data.val=$data/train"
plain=(--set data.augment=none --images 80)
expect "preview" 0 run 1 preview "${sets[@]}" "${plain[@]}" --out "$SCRATCH/plain.html"
for text in "Preview of resnet20" "10 classes of 8 to 8 training images" "10 steps of 8 images" \
    "</svg>" "</html>"; do
    grep -qF "$text" "$SCRATCH/plain.html" || broken "the preview does not hold '$text'"
done
# without augmentation training sees what evaluation does: 12 of the 80 come twice
[[ $(grep -o '<img' "$SCRATCH/plain.html" | wc -l) == 92 &&
   $(pictures "$SCRATCH/plain.html" | wc -l) == 80 ]] || broken "the images are others"
expect "preview of erased ones" 0 run 1 preview "${sets[@]}" "${plain[@]}" \
    --set data.random_erase=1 --out "$SCRATCH/erased.html"
[[ $(pictures "$SCRATCH/erased.html" | wc -l) == 92 ]] || broken "not all images are erased"
expect "preview of mixed ones" 0 run 1 preview "${sets[@]}" "${plain[@]}" \
    --set data.mixup=1 --out "$SCRATCH/mixed.html"
expect_error "preview" 64 "must end in .html" 1 preview "${sets[@]}" --out "$SCRATCH/page"
grep -q ' %, .* %\|[0-9] % ' "$SCRATCH/mixed.html" || broken "no target says what was mixed"
[[ ! -e $SCRATCH/shown ]] || broken "preview has made a run folder"

# ---- how high the rate may be ----
settings rates model.name=mlp
expect "find-lr" 0 run 1 find-lr "${sets[@]}" --set train.batch_per_rank=32 --steps 100 \
    --from 1e-4 --csv "$SCRATCH/rates.csv"
expect_text "find-lr" 1 "a tenth of that is a good start"
expect_text "find-lr" 1 "optimizer.lr="
[[ $(wc -l < "$SCRATCH/rates.csv") -gt 20 ]] || broken_run "few steps were taken"
[[ ! -e $SCRATCH/rates ]] || broken "find-lr has made a run folder"
expect "find-lr from above" 0 run 1 find-lr "${sets[@]}" --steps 40 --from 100 --to 1000
expect_text "find-lr from above" 1 "the loss never fell"
expect "find-lr from above, and down again" 0 run 1 find-lr "${sets[@]}" model.name=resnet20 \
    train.batch_per_rank=8 --from 0.1 --to 10 --steps 60
expect_text "find-lr from above, and down again" 1 "the loss never fell"
expect "find-lr from below" 0 run 1 find-lr "${sets[@]}" --to 1e-5
expect_text "find-lr from below" 1 "the loss never fell"
expect_text "find-lr from below" 0 "optimizer.lr="
# where nothing can be learnt, whatever the seed, chance is not taken for learning
for seed in 1 2 3 4 5 6; do
    expect "find-lr of noise" 0 run 1 find-lr "${sets[@]}" train.batch_per_rank=4 \
        "train.seed=$seed" --from 1e-12 --to 1e-11
    expect_text "find-lr of noise, seed $seed" 1 "the loss never fell"
done
expect "find-lr, too low an end" 0 run 1 find-lr "${sets[@]}" --steps 200 --from 1e-3 --to 0.01
expect_text "find-lr, too low an end" 1 "had not risen by the end"
expect_error "find-lr" 74 nowhere 1 find-lr "${sets[@]}" --csv "$SCRATCH/nowhere/x.csv"
# the first step has the weights and the images of a run
train first 1 model.name=mlp train.batch_per_rank=32 train.max_steps=1 log.every=1
[[ $(sed -n 2p "$SCRATCH/rates.csv" | cut -d, -f3 | cut -c1-6) == \
   $(losses first | head -1 | grep -oE '[0-9]+\.[0-9]+' | cut -c1-6) ]] ||
    broken "the first loss is $(sed -n 2p "$SCRATCH/rates.csv"), of a run $(losses first | head -1)"
if have_mpi; then
    expect "find-lr on two" 0 run 2 find-lr "${sets[@]}" --set train.batch_per_rank=4 --steps 20
fi
expect_error "find-lr" 64 "--to 1 must be greater than --from 2" 1 find-lr "${sets[@]}" \
    --from 2 --to 1
train_fails idle 64 "train.patience requires evaluations" 1 train.patience=2
expect "bench step of such a run" 0 run 1 bench step "$SCRATCH/early" data.val= --steps 1
train_fails never 64 "train.patience counts evaluations" 1 "data.val=$data/val" train.patience=2 \
    train.eval_every=0
expect "eval of such a run" 0 run 1 eval "$SCRATCH/early" "data.val=$data/val" train.eval_every=0
train_fails sets_already 65 "its folders are already sets; remove data.val_split" 1 \
    data.train= "data.dir=$data" data.val_split=0.2

# convoy scale, whose runs do not evaluate
mkdir "$SCRATCH/flat" && cp -r "$data/train/." "$SCRATCH/flat"
settings series data.train= "data.dir=$SCRATCH/flat" data.val_split=0.25 train.patience=3 \
    "scale.ranks=[1]" scale.repeats=1 scale.steps=3 scale.warmup_steps=1
expect "scale" 0 run 1 scale "${sets[@]}"
exit "$failed"
