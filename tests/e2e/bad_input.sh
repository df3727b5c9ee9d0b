#!/usr/bin/env bash
# bad_input.sh - data and checkpoints that cannot be used, disks that are full: one line that names
# the file, the right exit code on all ranks, no hang, nothing lost.
# A few bad images do not end a training run.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
no_grace
ranks=(1)
have_mpi && ranks=(1 2)
data=$SCRATCH/data

# refused TEXT KEY=VALUE... - as unusable data, by one rank and by two.
refused()
{
    local text=$1 n
    shift
    for n in "${ranks[@]}"; do train_fails refused 65 "$text" "$n" "$@"; done
}

# ---- folders ----
refused "$SCRATCH/nowhere" "data.train=$SCRATCH/nowhere"
refused "data.val" "data.val=$SCRATCH/nowhere"
mkdir -p "$SCRATCH/empty" "$SCRATCH/hollow/class" "$SCRATCH/texts/class"
touch "$SCRATCH/texts/class/readme.txt"
refused "$SCRATCH/empty" "data.train=$SCRATCH/empty"
pictures=".jpg, .jpeg, .jpe, .jfif or .png"
refused "$SCRATCH/hollow: 1 of 1 class folders have no $pictures file: class" \
    "data.train=$SCRATCH/hollow"
refused "$SCRATCH/texts: 1 of 1 class" "data.train=$SCRATCH/texts"
refused "sets, not classes; name each set separately: '$data/train' (train), '$data/val' (val)" \
    "data.train=$data"
refused "$SCRATCH/small.yaml" "data.train=$SCRATCH/small.yaml"
cp -r "$data/val" "$SCRATCH/other"
mv "$SCRATCH/other/star" "$SCRATCH/other/sun"
refused "other: class sun is not in data.train" "data.val=$SCRATCH/other"
rm -r "$SCRATCH/other/sun"
refused "other: has no class star, but data.train has (data.allow_empty_classes: true accepts" \
    "data.val=$SCRATCH/other"
train lacking 1 "data.val=$SCRATCH/other" data.allow_empty_classes=true train.max_steps=1
find "$data" | sort > "$SCRATCH/before"
for place in train val/new; do
    settings run "data.val=$data/val"
    expect_error "a run in $place" 64 "run.dir: $data/$place is in data." 1 train "${sets[@]}" \
        "run.dir=$data/$place"
done
# apart KEY COMMAND... - which would make a class of a folder of its own
apart()
{
    expect_error "$*" 64 "$1: $data/train/new is in " 1 "${@:2}"
}
settings run train.max_steps=1
apart run.dir launch -n 1 -- train "${sets[@]}" "run.dir=$data/train/new"
apart run.dir find-lr "${sets[@]}" "run.dir=$data/train/new"
apart run.dir eval "${sets[@]}" "run.dir=$data/train/new" "data.val=$data/val"
apart scale.dir scale "${sets[@]}" scale.ranks=1 "scale.dir=$data/train/new"
apart log.file train "${sets[@]}" "log.file=$data/train/new"
apart data.index train "${sets[@]}" "data.index=$data/train/new"
apart data.cache_dir train "${sets[@]}" data.cache=disk "data.cache_dir=$data/train/new"
apart --out index "$data/train" --out "$data/train/new"
apart OUT pack "$data/train" "$data/train/new"
find "$data" | sort | cmp - "$SCRATCH/before" || broken_run "a run folder among the images"
mkdir -p "$SCRATCH/broken"
cp -r "$data/val/circle" "$SCRATCH/broken/"$'cir\ncle'
refused "$SCRATCH/broken: the name of class 0 (cir\\ncle) contains a line break" \
    "data.train=$SCRATCH/broken"
mkdir "$SCRATCH/idx"
printf '\0\0\10\3\0\0\0\144\0\0\0\34\0\0\0\34 and no pixels' \
    > "$SCRATCH/idx/train-images-idx3-ubyte"
printf '\0\0\10\1\0\0\0\144 and no labels' > "$SCRATCH/idx/train-labels-idx1-ubyte"
refused "$SCRATCH/idx/train-" "data.train=$SCRATCH/idx"

# Empty classes: all of them named, and taken where that is asked for; hidden folders are none.
cp -r "$data" "$SCRATCH/gaps"
rm "$SCRATCH/gaps/"{train,val}/{ring,star}/*
mkdir -p "$SCRATCH/gaps/train/.ipynb_checkpoints"
gaps=("data.train=$SCRATCH/gaps/train" "data.val=$SCRATCH/gaps/val")
refused "/gaps/train: 2 of 10 class folders have no $pictures file: ring, star (data." \
    "${gaps[@]}"
train gaps 1 "${gaps[@]}" data.allow_empty_classes=true train.max_steps=1
expect_text "empty classes" 1 ": 96 images of 10 classes, 56 for validation"

# A folder that is missing on one rank only, or has other images there.
if have_mpi; then
    cat > "$SCRATCH/one_differs" << 'END'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}
((rank == 1)) && exec "$REAL" "$@" --set "data.train=$OTHER"
exec "$REAL" "$@"
END
    chmod +x "$SCRATCH/one_differs"
    export REAL=$CONVOY OTHER=$SCRATCH/nowhere
    CONVOY=$SCRATCH/one_differs train_fails missing_on_one 65 \
        "rank 1: data.train: $SCRATCH/nowhere" 2
    CONVOY=$SCRATCH/one_differs train_fails missing_on_one 65 \
        "rank 1: data.train: $SCRATCH/nowhere" 4
    expect_field "folder missing on rank 1" missing_on_one "done" code 65
    OTHER=$data/val
    CONVOY=$SCRATCH/one_differs train_fails other_on_one 65 \
        "data.train: ranks see different images" 2
    # The same names and other bytes, in one of the files that are compared: the first.
    cp -r "$data/train" "$SCRATCH/altered"
    OTHER=$SCRATCH/altered
    CONVOY=$SCRATCH/one_differs train same_on_one 2 train.max_steps=1
    cp "$data/train/checkers/0001.jpg" "$OTHER/checkers/0000.jpg"
    size=$(stat -c %s "$OTHER/checkers/0000.jpg")
    CONVOY=$SCRATCH/one_differs train_fails bytes_on_one 65 \
        "images: $OTHER/checkers/0000.jpg: $size bytes with checksum" 2
    expect_text "other bytes on rank 1" 1 \
        "here, $(stat -c %s "$data/train/checkers/0000.jpg") bytes with checksum"
    rm "$OTHER/checkers/0000.jpg"
    CONVOY=$SCRATCH/one_differs train_fails gone_on_one 65 \
        "images: $OTHER/checkers/0000.jpg: cannot be read here, " 4
fi

# ---- images: five that are bad, and forms that are not ----
cp -r "$data" "$SCRATCH/mixed"
mixed=$SCRATCH/mixed/train/circle
head -c 400 "$data/train/circle/0001.jpg" > "$mixed/0001.jpg"
echo "this is no picture" > "$mixed/0002.jpg"
: > "$mixed/0003.jpg"
ln -sf "$SCRATCH/nowhere" "$mixed/0004.jpg"
"$tools"/make_image cmyk "$mixed/0005.jpg"
"$tools"/make_image ycck "$mixed/0006.jpg"
"$tools"/make_image grey "$mixed/0007.jpg"
"$tools"/make_image progressive "$mixed/0008.jpg"
rm "$mixed/0000.jpg" "$mixed/0009.jpg" "$mixed/0010.jpg" "$mixed/0011.jpg"
mkfifo "$mixed/0000.jpg"
"$tools"/make_image png "$mixed/0009.png"
"$tools"/make_image png-grey "$mixed/0010.png"
"$tools"/make_image png-alpha "$mixed/0011.png"
for n in "${ranks[@]}"; do
    train "mixed$n" "$n" "data.train=$SCRATCH/mixed/train" data.augment=imagenet
    expect_text "bad images on $n" 5 "convoy train: warning:"
    for bad in 0 1 2 3 4; do
        grep "^convoy train: warning:.*$mixed/000$bad.jpg.*; replaced by " "$out" > /dev/null ||
            broken_run "bad images on $n: no line says what became of 000$bad.jpg"
    done
done

# The same with a file that may not be read. Root may read everything, so root asks nobody.
cp -r "$data" "$SCRATCH/locked"
chmod 000 "$SCRATCH/locked/train/circle/0001.jpg"
as_nobody=()
((EUID != 0)) || as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
mkdir -p "$SCRATCH/locked_run"
chmod 777 "$SCRATCH/locked_run"
if "${as_nobody[@]}" test -r "$SCRATCH/small.yaml" 2> /dev/null &&
    "${as_nobody[@]}" test -x "$CONVOY"
then
    settings locked_run "data.train=$SCRATCH/locked/train"
    expect "a file without permission" 0 timeout 60 "${as_nobody[@]}" "$CONVOY" train "${sets[@]}"
    expect_text "a file without permission" \
        1 "convoy train: warning: $SCRATCH/locked/train/circle/0001.jpg: "
    mkdir "$SCRATCH/locked_run2"
    settings locked_run2/run
    expect "a run folder without permission" 74 timeout 60 "${as_nobody[@]}" "$CONVOY" \
        train "${sets[@]}"
    expect_one_error "a run folder without permission" "$SCRATCH/locked_run2/run"
else
    echo "not tested: files without permission: nobody cannot reach $SCRATCH"
fi

# Too many: 14 of 120, seven for each of two ranks, where ten are allowed.
cp -r "$data" "$SCRATCH/rotten"
for i in 0 1 2 3 4 5 6; do : > "$SCRATCH/rotten/train/star/000$i.jpg"; done
for i in 0 1 2 3 4 5 6; do : > "$SCRATCH/rotten/train/ring/000$i.jpg"; done
refused "data.max_bad_fraction" "data.train=$SCRATCH/rotten/train"
train allowed 1 "data.train=$SCRATCH/rotten/train" data.max_bad_fraction=0.2

# Evaluation: a bad image is a wrong answer. A run of one step, so that all see the same weights.
cp -r "$data/val" "$SCRATCH/worse"
for i in 0 1 2; do echo "no picture" > "$SCRATCH/worse/star/bad$i.jpg"; done
train good 1 train.max_steps=2
for n in "${ranks[@]}"; do
    for set in "$data/val" "$SCRATCH/worse"; do
        settings "eval$n" "data.val=$set"
        expect "eval with bad images" 0 run "$n" eval "${sets[@]}" --checkpoint "$(latest good)"
        [[ $set == */worse ]] ||
            right=$(awk -v t="$(field "eval$n" eval top5)" 'BEGIN { print 70 * t }')
    done
    expect_text "eval with bad images on $n" 4 "; counted as wrong"
    expect_field "eval with bad images on $n" "eval$n" eval images 73
    awk -v t="$(field "eval$n" eval top5)" -v right="$right" \
        'BEGIN { d = 73 * t - right; exit !(d < 1e-9 && d > -1e-9) }' ||
        broken "eval with bad images on $n: top5 is $(field "eval$n" eval top5) of 73," \
            "expected $right right"
done

# ---- checkpoints ----
good=$(latest good)
refused "$SCRATCH/nowhere" "checkpoint.resume=$SCRATCH/nowhere"
refused "$good: the checkpoint is of resnet20" "checkpoint.resume=$good" model.name=resnet32
refused "$good: tensor fc.weight" "checkpoint.resume=$good" model.classes=11
refused "$good: tensor optimizer." "checkpoint.resume=$good" optimizer.name=adam
train_fails good 65 "$good: the checkpoint is of resnet20" 1 model.name=resnet32
echo "no checkpoint" > "$SCRATCH/text.safetensors"
refused "$SCRATCH/text.safetensors" "checkpoint.resume=$SCRATCH/text.safetensors"
for n in "${ranks[@]}"; do
    settings "eval$n" "data.val=$data/val"
    expect_error "eval without a file" 65 "$SCRATCH/nowhere" "$n" eval "${sets[@]}" \
        --checkpoint "$SCRATCH/nowhere"
    expect_error "eval of another model" 65 "$good" "$n" eval "${sets[@]}" --checkpoint "$good" \
        --set model.name=resnet32
done
[[ $(latest good) == "$good" ]] || broken "a refused run has changed the run folder"
expect "the checkpoint after all this" 0 run 1 inspect checkpoint "$good"
exit "$failed"
