#!/usr/bin/env bash
# formats.sh - the same images as folder, shards, tar and TFRecord files give the same batches on any number of ranks; indexes are kept, found
# out of date and made again with one line; packing goes on after a kill; damage is named and treated as the policy says.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config
no_grace
ranks=(1)
have_mpi && ranks=(1 2 4)
tree=$SCRATCH/data/train
build/make_containers "$tree" "$SCRATCH" || broken "cannot make containers"
mv "$SCRATCH/tree.tar" "$SCRATCH/train.tar"

# ---- same batches ----
expect "pack" 0 run 1 pack "$tree" "$SCRATCH/shards" --shard-mb 1 --verify
expect_text "pack" 1 "all 120 images verified"
expect "pack the tars" 0 run 1 pack "$SCRATCH/tars" "$SCRATCH/shards2" --verify --no-seek

# checksums NAME RANKS SET - the lines of seven steps (more than an epoch) go to $SCRATCH/NAME.
checksums()
{
    settings "$1" data.augment=imagenet train.batch_mode=global train.global_batch=24 train.batch_per_rank=24 "data.train=$3"
    expect "checksums $1" 0 run "$2" bench loader "${sets[@]}" --crc --steps 7
    grep '^step ' "$out" > "$SCRATCH/$1.crc"
}

checksums folder 1 "$tree"
[[ $(wc -l < "$SCRATCH/folder.crc") == 7 ]] || broken_run "no checksums"
for set in "$tree" "$SCRATCH/shards" "$SCRATCH/shards2" "$SCRATCH/tars" "$SCRATCH/train.tar" "$SCRATCH/records"; do
    for n in "${ranks[@]}"; do
        checksums other "$n" "$set"
        diff "$SCRATCH/folder.crc" "$SCRATCH/other.crc" > "$out" || broken_run "$set on $n: other batches than the folder"
    done
    expect "inspect $set" 0 run 1 inspect dataset "$set"
    expect_text "inspect $set" 1 "images 120"
    expect_text "inspect $set" 1 "unreadable 0"
done

# Labels and class names come along: the sets of another format fit each other, or are refused.
train by_format 1 "data.train=$SCRATCH/shards" "data.val=$SCRATCH/data/val"
mv "$SCRATCH/data/val/star" "$SCRATCH/data/val/sun"
train_fails other_names 65 "data.val: class 8 is sun there but star in data.train" 1 "data.train=$SCRATCH/records" "data.val=$SCRATCH/data/val"
mv "$SCRATCH/data/val/sun" "$SCRATCH/data/val/star"

# ---- indexes: made once, whatever the number of ranks ----
for n in "${ranks[@]}"; do
    rm -rf "$SCRATCH/index"
    train "kept$n" "$n"
    expect_text "first run on $n" 1 "index kept in $SCRATCH/index/train-"
    train "again$n" "$n" checkpoint.resume=none
    expect_text "second run on $n" 0 "index kept in"
    cp "$tree/circle/0000.jpg" "$tree/circle/new.jpg"
    train "changed$n" "$n"
    expect_text "changed folder on $n" 1 "out of date, $tree/circle has changed since; scanning again"
    rm "$tree/circle/new.jpg"
    for index in "$SCRATCH"/index/train-*.index; do flip_byte "$index" 100; done
    train "damaged$n" "$n"
    expect_text "damaged index on $n" 1 "the checksum is wrong; scanning"
    train "off$n" "$n" data.index=off
    expect_text "data.index=off on $n" 0 "index kept in"
    train "file$n" "$n" "data.index=$SCRATCH/own/t$n.index"
    [[ -s $SCRATCH/own/t$n.index ]] || broken "data.index: no $SCRATCH/own/t$n.index"
done
expect "index" 0 run 1 index "$tree" --out "$SCRATCH/i.index" --threads 3
expect "index --check" 0 run 1 index "$tree" --out "$SCRATCH/i.index" --check
touch -d '2001-02-03' "$tree/star"
expect_error "index --check of a changed folder" 65 "out of date, $tree/star has changed since" 1 index "$tree" --out "$SCRATCH/i.index" --check
expect_error "index of nothing" 65 "$SCRATCH/nowhere: no such folder" 1 index "$SCRATCH/nowhere" --out "$SCRATCH/i.index"
expect_error "index --threads" 64 "--threads 0" 1 index "$tree" --threads 0
expect_error "index of shards" 64 "needs no index" 1 index "$SCRATCH/shards"

# ---- packing ----
for ((i = 0; i < 6; i++)); do
    "$CONVOY" pack "$tree" "$SCRATCH/killed" --shard-mb 1 > "$SCRATCH/pack.out" 2>&1 &
    pid=$!
    sleep "0.0$((i * 2))"
    kill -9 "$pid" 2> /dev/null
    wait "$pid" 2> /dev/null
done
expect "pack after kills" 0 run 1 pack "$tree" "$SCRATCH/killed" --shard-mb 1 --verify
expect_error "pack elsewhere" 64 "$SCRATCH/killed: holds shards of other data or options" 1 pack "$tree" "$SCRATCH/killed" --shard-mb 2
expect_error "pack of pixels" 64 "convoy pack: OUT is missing" 1 pack "$tree"
(ulimit -f 4 && expect_error "pack to a full disk" 74 "$SCRATCH/full/shard-00000.bin: cannot write" 1 pack "$tree" "$SCRATCH/full" && exit "$failed") || failed=1
[[ -z $(ls "$SCRATCH/full") ]] || broken "pack to a full disk has left files: $(ls "$SCRATCH/full")"

# ---- damage ----
flip_byte "$SCRATCH/shards/shard-00000.bin" 3000
for n in "${ranks[@]}"; do
    train "shard$n" "$n" "data.train=$SCRATCH/shards"
    expect_text "a damaged shard on $n" 1 "the file is damaged; replaced by"
done
expect "inspect a damaged shard" 65 run 1 inspect dataset "$SCRATCH/shards"
expect_text "inspect a damaged shard" 1 "unreadable: $SCRATCH/shards/shard-00000.bin["
truncate -s 20000 "$SCRATCH/tars/part-0001.tar"
expect_error "a tar cut short" 65 "$SCRATCH/tars/part-0001.tar: the archive is cut short" 1 inspect dataset "$SCRATCH/tars"
flip_byte "$SCRATCH/records/train-00002-of-00008" 5000
for n in "${ranks[@]}"; do train_fails records 65 "train-00002-of-00008: the record at byte" "$n" "data.train=$SCRATCH/records"; done
rm "$SCRATCH/killed/dataset.index" "$SCRATCH/killed/shard-00000.bin"
expect_error "a shard missing" 65 "$SCRATCH/killed" 1 inspect dataset "$SCRATCH/killed" --format shards
exit "$failed"
