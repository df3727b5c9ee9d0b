#!/usr/bin/env bash
# distil.sh - train.teacher in whole runs: it changes what is learnt, the same way from any file,
# for any ranks, stops and threads; a run keeps to its teacher; what cannot be one is refused.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config
steady=(schedule.name=constant train.epochs=9)
train teacher 1 "${steady[@]}" train.max_steps=6 ema.decay=0.5 "data.val=$SCRATCH/data/val" \
    train.eval_every=0
learns=("${steady[@]}" "train.teacher=$SCRATCH/teacher" train.distill_weight=0.7)

train plain 1 "${steady[@]}" train.max_steps=6
train whole 1 "${learns[@]}" train.max_steps=6
expect_text "the teacher is named" 1 "train.teacher: resnet20 from $SCRATCH/teacher/checkpoints/"
far "with a teacher and without" whole plain 1e-4
train soft 1 "${learns[@]}" train.max_steps=6 train.distill_weight=1 train.distill_temperature=1
far "another weight and temperature" whole soft 1e-4
grep -aq "teacher.conv1" "$(latest whole)" && broken "the checkpoint holds the teacher"

# A stop in the middle, the teacher given as a file, as weights for others, or elsewhere.
best=$(readlink -f "$SCRATCH/teacher/checkpoints/best")
expect "export" 0 run 1 export "$best" "$SCRATCH/teacher.safetensors"
cp "$best" "$SCRATCH/copy.safetensors"
train parts 1 "${learns[@]}" train.max_steps=2
train parts 1 "${learns[@]}" train.max_steps=4 "train.teacher=$SCRATCH/copy.safetensors"
train parts 1 "${learns[@]}" train.max_steps=6 "train.teacher=$SCRATCH/teacher.safetensors" \
    train.teacher_model=resnet20
same "6 steps and 2 + 2 + 2" whole parts
[[ $(losses whole) == "$(losses parts)" ]] || broken "6 steps and 2 + 2 + 2: the losses differ"
train threads 1 "${learns[@]}" train.max_steps=6 data.threads=4
same "1 and 4 decode threads" whole threads
train again 1 "${learns[@]}" train.max_steps=6 train.recompute=blocks
same "what is made again" whole again

# With all that touches the loss or the weights.
all=("${learns[@]}" train.label_smoothing=0.1 data.mixup=0.8 data.cutmix=1 data.random_erase=0.7
    data.erase_mode=pixel train.class_weights=auto ema.decay=0.9 train.loss=bce train.bce_sum=true
    data.progressive_sizes=24 data.progressive_until=1 data.mean=0.4 "data.val=$SCRATCH/data/val"
    train.eval_every=0)
train all 1 "${all[@]}" train.max_steps=17
train all_parts 1 "${all[@]}" train.max_steps=13
train all_parts 1 "${all[@]}" train.max_steps=17
same "17 steps and 13 + 4" all all_parts
train sam 1 "${learns[@]}" optimizer.sam_rho=0.5 train.max_steps=4
train sam_parts 1 "${learns[@]}" optimizer.sam_rho=0.5 train.max_steps=2
train sam_parts 1 "${learns[@]}" optimizer.sam_rho=0.5 train.max_steps=4
same "sam: 4 steps and 2 + 2" sam sam_parts
far "sam is another run" sam whole 1e-3

frozen=("${learns[@]}" model.bn=frozen train.max_steps=4)
train one 1 "${frozen[@]}"
train micro 1 "${frozen[@]}" train.batch_per_rank=4 train.accumulate=2
near "1 x 8 and 1 x 4 accumulated twice" one micro 1e-5
if have_mpi; then
    train two 2 "${frozen[@]}" train.batch_per_rank=4
    near "1 x 8 and 2 x 4" one two 1e-5
    train two_parts 2 "${frozen[@]}" train.batch_per_rank=4 train.max_steps=2
    train two_parts 2 "${frozen[@]}" train.batch_per_rank=4
    same "2 x 4: 4 steps and 2 + 2" two two_parts
fi

# Memory: the teacher's weights once, with no gradient and no state.
expect "memory" 0 run 1 inspect memory "$SCRATCH/small.yaml" "train.teacher=$SCRATCH/teacher"
awk '/^parameters +[0-9]/ { p = $2 } /^gradients +[0-9]/ { g = $2 } /^running statistics/ { s = $3 }
    /^teacher +[0-9]/ { t = $2 } END { exit !(t == p + s && g == p) }' "$out" ||
    broken_run "memory: the teacher is not as large as its student"
expect "memory without" 0 run 1 inspect memory "$SCRATCH/small.yaml"
expect_text "memory without" 0 "teacher"
expect "bench" 0 run 1 bench step "$SCRATCH/small.yaml" --steps 4 --nodes \
    "train.teacher=$SCRATCH/teacher"
expect_text "bench" 1 "allocations 0"
expect_text "bench" some "conv2d_bn "

# A run goes on with its own teacher; one that begins at its checkpoint may have another.
train other 1 "${steady[@]}" train.max_steps=1 train.seed=2
no_grace
train_fails parts 65 "has other weights than this run's teacher had" 1 "${learns[@]}" \
    train.max_steps=8 "train.teacher=$SCRATCH/other"
train moved 1 "${learns[@]}" train.max_steps=8 "train.teacher=$SCRATCH/other" \
    "checkpoint.resume=$(latest whole)"
expect_text "another teacher" 1 \
    "was trained with another teacher, and the run continues with this one"
train parts 1 "${steady[@]}" train.max_steps=8
expect_text "no teacher" 1 "was trained with a teacher, and the run continues without one"

train_fails refused 65 "train.teacher: $SCRATCH/nowhere: does not exist" 1 \
    "train.teacher=$SCRATCH/nowhere"
expect_text "the way out" 1 "(train.teacher= continues without a teacher)"
expect "what needs no teacher" 0 run 1 bench loader "$SCRATCH/small.yaml" --crc --steps 1 \
    "train.teacher=$SCRATCH/nowhere"
train_fails other 64 "is a checkpoint of this run (run.dir), which replaces it" 1 "${learns[@]}" \
    train.max_steps=8 "train.teacher=$SCRATCH/other"
train_fails refused 65 "takes images of 32 pixels, but data.image_size is 40" 1 "${learns[@]}" \
    data.image_size=40 data.eval_resize=40
train_fails refused 65 "has 10 classes, but this network has 12" 1 "${learns[@]}" model.classes=12
train_fails refused 65 "takes images with 3 channels, but model.in_channels is 1" 1 "${learns[@]}" \
    model.in_channels=1
train_fails refused 65 "name the network with train.teacher_model" 1 "${learns[@]}" \
    "train.teacher=$SCRATCH/teacher.safetensors"
train_fails refused 65 "pth/timm.pth: not a Convoy checkpoint; for other weights name the" 1 \
    "${learns[@]}" train.teacher=tests/golden/pth/timm.pth
train_fails refused 64 "train.teacher_model: resnet20 has no weights V2" 1 "${learns[@]}" \
    train.teacher_model=resnet20:V2
train_fails refused 64 "train.teacher requires data.labels: single" 1 "${learns[@]}" \
    data.labels=multi data.format=synthetic train.loss=bce
several=("${steady[@]}" data.labels=multi data.format=synthetic train.loss=bce model.classes=10
    train.max_steps=1)
train several 1 "${several[@]}"
train_fails refused 65 "was trained with several labels per image" 1 "${learns[@]}" \
    "train.teacher=$SCRATCH/several"
train_fails refused 64 "train.teacher_model is not needed for a checkpoint" 1 "${learns[@]}" \
    train.teacher_model=resnet20
train_fails refused 65 "not the weights of resnet18" 1 "${learns[@]}" \
    "train.teacher=$SCRATCH/teacher.safetensors" train.teacher_model=resnet18
train_fails refused 64 "train.teacher_model: unknown network resnet21" 1 "${learns[@]}" \
    train.teacher_model=resnet21
have_mpi && train_fails refused 65 "$SCRATCH/nowhere: does not exist" 2 \
    "train.teacher=$SCRATCH/nowhere"
mapfile -t classes < <(ls "$SCRATCH/data/train")
printf '%s\n' "${classes[1]}" "${classes[0]}" "${classes[@]:2}" > "$SCRATCH/swapped"
train_fails refused 65 "has another class 0 than data.train, where it is ${classes[1]}" 1 \
    "${learns[@]}" "data.class_map=$SCRATCH/swapped"
# Folders 0, 1, 10, 2: the third is label 2 of weights without names, and says so.
mkdir -p "$SCRATCH/folders"
folders=(0 1 10 2 3 4 5 6 7 8)
for i in "${!classes[@]}"; do
    ln -s "$SCRATCH/data/train/${classes[i]}" "$SCRATCH/folders/${folders[i]}"
done
"$tools"/make_ckptmeta "$SCRATCH/teacher.safetensors" "$SCRATCH/nameless.safetensors" convoy ""
train numbers 1 "${learns[@]}" train.max_steps=1 "data.train=$SCRATCH/folders" \
    "train.teacher=$SCRATCH/nameless.safetensors" train.teacher_model=resnet20
expect_text "folders out of order" 1 "label 2 of $SCRATCH/nameless.safetensors is read as 10"
# One side has names alone: taken by place, with a word.
for i in "${!classes[@]}"; do
    for file in "$SCRATCH/data/train/${classes[i]}"/*; do echo "$file,$i"; done
done > "$SCRATCH/numbered.csv"
train numbered 1 "${steady[@]}" train.max_steps=1 "data.train=$SCRATCH/numbered.csv"
train named 1 "${learns[@]}" train.max_steps=1 "train.teacher=$SCRATCH/numbered"
expect_text "names on one side" 1 "0 is taken as ${classes[0]}"
vit=("${steady[@]}" model.name=deit_tiny_patch16_224 train.max_steps=1)
train patches 1 "${vit[@]}"
train_fails refused 65 "takes images of one size only" 1 "${learns[@]}" \
    "train.teacher=$SCRATCH/patches" data.train_size=24
train of_patches 1 "${learns[@]}" "train.teacher=$SCRATCH/patches" train.max_steps=1
echo "model: {name: roberta_tiny}" > "$SCRATCH/text.yaml"
text=("$SCRATCH/text.yaml" --set data.format=synthetic --set data.tokens=16
    --set device.backend=cpu --set device.threads=1 --set train.precision=fp32
    --set train.batch_per_rank=4 --set train.max_steps=1)
expect "a teacher of text" 0 run 1 train "${text[@]}" --set "run.dir=$SCRATCH/words"
train_fails refused 65 "roberta_tiny reads text" 1 "${learns[@]}" "train.teacher=$SCRATCH/words"
expect_error "a student of text" 64 "train.teacher requires a network that reads images" 1 train \
    "${text[@]}" --set "run.dir=$SCRATCH/refused" --set "train.teacher=$SCRATCH/words"

# What was learnt stands by itself.
expect "inspect checkpoint" 0 run 1 inspect checkpoint "$(latest whole)"
expect_text "inspect checkpoint" 1 "teacher yes"
rm -r "$SCRATCH/teacher"
settings alone "${learns[@]}" "data.val=$SCRATCH/data/val"
expect "eval" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest whole)"
exit "$failed"
