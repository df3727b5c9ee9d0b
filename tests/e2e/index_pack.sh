#!/usr/bin/env bash
# index_pack.sh - the list of a dataset is made once for all ranks, kept, found out of date or
# damaged and made again with one line; packing goes on after a kill,
# never mixes and never leaves half a shard.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config
no_grace
ranks=(1)
have_mpi && ranks=(1 2)
tree=$SCRATCH/data/train

# ---- indexes: made once, whatever the number of ranks ----
for n in "${ranks[@]}"; do
    rm -rf "$SCRATCH/index"
    train "kept$n" "$n" train.max_steps=1
    expect_text "first run on $n" 1 "index saved to $SCRATCH/index/train-"
    train "again$n" "$n" train.max_steps=1
    expect_text "second run on $n" 0 "index saved to"
    cp "$tree/circle/0000.jpg" "$tree/circle/new.jpg"
    train "changed$n" "$n" train.max_steps=1
    expect_text "changed folder on $n" \
        1 "out of date: $tree/circle has changed; scanning again"
    rm "$tree/circle/new.jpg"
    for index in "$SCRATCH"/index/train-*.index; do flip_byte "$index" 100; done
    train "damaged$n" "$n" train.max_steps=1
    expect_text "damaged index on $n" 1 "the checksum is wrong; scanning"
    train "off$n" "$n" train.max_steps=1 data.index=off
    expect_text "data.index=off on $n" 0 "index saved to"
    train "file$n" "$n" train.max_steps=1 "data.index=$SCRATCH/own/t$n.index"
    [[ -s $SCRATCH/own/t$n.index ]] || broken "data.index: no $SCRATCH/own/t$n.index"
done
expect "index" 0 run 1 index "$tree" --out "$SCRATCH/i.index" --threads 3
expect "index --check" 0 run 1 index "$tree" --out "$SCRATCH/i.index" --check
touch -d '2001-02-03' "$tree/star"
expect_error "index --check of a changed folder" 65 "out of date: $tree/star has changed" \
    1 index "$tree" --out "$SCRATCH/i.index" --check
expect_error "index of nothing" 65 "$SCRATCH/nowhere: no such folder" 1 index "$SCRATCH/nowhere" \
    --out "$SCRATCH/i.index"
expect_error "index --threads" 64 "--threads 0" 1 index "$tree" --threads 0

# ---- packing ----
for ((i = 0; i < 6; i++)); do
    "$CONVOY" pack "$tree" "$SCRATCH/killed" --shard-mb 1 > "$SCRATCH/pack.out" 2>&1 &
    pid=$!
    sleep "0.0$((i * 2))"
    kill -9 "$pid" 2> /dev/null
    wait "$pid" 2> /dev/null
done
expect "pack after kills" 0 run 1 pack "$tree" "$SCRATCH/killed" --shard-mb 1 --verify
expect_error "pack elsewhere" 64 "$SCRATCH/killed: contains shards of other data or options" \
    1 pack "$tree" "$SCRATCH/killed" --shard-mb 2
expect_error "pack to nowhere" 64 "missing argument OUT" 1 pack "$tree"
(ulimit -f 4 && expect_error "pack to a full disk" 74 \
    "$SCRATCH/full/shard-00000.bin: cannot write" 1 pack "$tree" "$SCRATCH/full" &&
    exit "$failed") || failed=1
[[ -z $(ls "$SCRATCH/full") ]] || broken "pack to a full disk has left files: $(ls "$SCRATCH/full")"

cp tests/golden/images/420_progressive.jpg "$tree/circle/"
expect "pack --baseline" 0 run 1 pack "$tree" "$SCRATCH/baseline" --baseline --verify
expect_text "pack --baseline" 1 "1 progressive images recoded"

# Containers of both sets in one folder: --role says which.
"$tools"/make_containers "$tree" "$SCRATCH/made"
mkdir "$SCRATCH/both"
mv "$SCRATCH/made/tars/part-0000.tar" "$SCRATCH/both/train-0.tar"
mv "$SCRATCH/made/tars/part-0001.tar" "$SCRATCH/both/val-0.tar"
images=$(tar -tf "$SCRATCH/both/val-0.tar" | grep -c '\.cls$')
expect "index --role val" 0 run 1 index "$SCRATCH/both" --role val --out "$SCRATCH/both.index"
expect_text "index --role val" 1 "$SCRATCH/both: webdataset, $images images"
expect_error "index --role" 64 "--role: unknown value test" 1 index "$SCRATCH/both" --role test
expect_error "index of shards" 64 "needs no index" 1 index "$SCRATCH/killed"
exit "$failed"
