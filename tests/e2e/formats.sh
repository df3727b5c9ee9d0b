#!/usr/bin/env bash
# formats.sh - the same images as folder, shards, tar and TFRecord files give the same batches on
# any number of ranks; damage is named and treated as the policy says.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config
no_grace
ranks=(1)
have_mpi && ranks=(1 2 4)
tree=$SCRATCH/data/train
"$tools"/make_containers "$tree" "$SCRATCH" || broken "cannot make containers"
mv "$SCRATCH/tree.tar" "$SCRATCH/train.tar"

# ---- same batches ----
expect "pack" 0 run 1 pack "$tree" "$SCRATCH/shards" --shard-mb 1 --verify
expect_text "pack" 1 "all 120 images verified"
expect "pack the tars" 0 run 1 pack "$SCRATCH/tars" "$SCRATCH/shards2" --verify --no-seek

# checksums NAME RANKS SET - the lines of seven steps (more than an epoch) go to $SCRATCH/NAME.
checksums()
{
    settings "$1" data.augment=imagenet train.batch_mode=global train.global_batch=24 \
        train.batch_per_rank=24 "data.train=$3"
    expect "checksums $1" 0 run "$2" bench loader "${sets[@]}" --crc --steps 7
    grep '^step ' "$out" > "$SCRATCH/$1.crc"
}

checksums folder 1 "$tree"
[[ $(wc -l < "$SCRATCH/folder.crc") == 7 ]] || broken_run "no checksums"
for set in "$tree" "$SCRATCH/shards" "$SCRATCH/shards2" "$SCRATCH/tars" "$SCRATCH/train.tar" \
    "$SCRATCH/records"
do
    for n in "${ranks[@]}"; do
        checksums other "$n" "$set"
        diff "$SCRATCH/folder.crc" "$SCRATCH/other.crc" > "$out" ||
            broken_run "$set on $n: other batches than the folder"
    done
    expect "inspect $set" 0 run 1 inspect dataset "$set"
    expect_text "inspect $set" 1 "images 120"
    expect_text "inspect $set" 1 "unreadable 0"
done

# Labels and class names come along: the sets of another format fit each other, or are refused.
train by_format 1 train.max_steps=1 "data.train=$SCRATCH/shards" "data.val=$SCRATCH/data/val"
mv "$SCRATCH/data/val/star" "$SCRATCH/data/val/sun"
train_fails other_names 65 "class sun is not in data.train" \
    1 "data.train=$SCRATCH/records" "data.val=$SCRATCH/data/val"
mv "$SCRATCH/data/val/sun" "$SCRATCH/data/val/star"

# One folder with the files of both sets, by their names.
mkdir "$SCRATCH/both"
tar cf "$SCRATCH/both/shapes-test.tar" -C "$SCRATCH/data" val
cp "$SCRATCH/train.tar" "$SCRATCH/both/shapes-train.tar"
train both 1 train.max_steps=1 data.train= "data.dir=$SCRATCH/both"
expect_text "both" 1 ": 120 images of 10 classes, 30 for validation"
expect_text "both" 0 "evaluation will use training images"
train_fails same_files 65 "data.val: part-0000.tar is a file of data.train too" \
    1 "data.train=$SCRATCH/tars" "data.val=$SCRATCH/tars"

for set in "$tree" "$SCRATCH/shards" "$SCRATCH/train.tar"; do
    train same_set 1 train.max_steps=1 "data.train=$set" "data.val=$set"
    expect_text "same_set" 1 "evaluation will use training images"
    rm -r "$SCRATCH/same_set"
done

train synthetic 1 train.max_steps=1 data.format=synthetic data.train= data.synthetic_images=40 \
    model.classes=7
expect_text "synthetic" 1 ": 40 images of 7 classes"

# ---- damage ----
flip_byte "$SCRATCH/shards/shard-00000.bin" 3000
for n in "${ranks[@]}"; do
    checksums damaged "$n" "$SCRATCH/shards"
    expect_text "a damaged shard on $n" 1 "the file is damaged; replaced by"
done
expect "inspect a damaged shard" 65 run 1 inspect dataset "$SCRATCH/shards"
expect_text "inspect a damaged shard" 1 "unreadable: $SCRATCH/shards/shard-00000.bin["
truncate -s 20000 "$SCRATCH/tars/part-0001.tar"
expect_error "a tar cut short" 65 "$SCRATCH/tars/part-0001.tar: the archive is truncated" \
    1 inspect dataset "$SCRATCH/tars"
flip_byte "$SCRATCH/records/train-00002-of-00004" 5000
for n in "${ranks[@]}"; do
    train_fails records 65 "train-00002-of-00004: the record at byte" \
        "$n" "data.train=$SCRATCH/records"
done
rm "$SCRATCH/records/train-00002-of-00004"
train_fails records 65 ": 1 of the 4 files train-*-of-00004 are missing: 00002" \
    1 "data.train=$SCRATCH/records"
rm "$SCRATCH/shards2/dataset.index" "$SCRATCH/shards2/shard-00000.bin"
expect_error "a shard missing" 65 "$SCRATCH/shards2" 1 inspect dataset "$SCRATCH/shards2" \
    --format shards
exit "$failed"
