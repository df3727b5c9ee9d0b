#!/usr/bin/env bash
# cache.sh - data.cache: the ranks of a node read each file once between them and train the same;
# nothing is left behind but the file on a disk that is asked for, which the next run finds; what
# cannot be is refused.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
files=120 # of the training set

# counted RUN RANKS KEY=VALUE... - trains, and sets `opens` to how often files of the training set
# were opened by all ranks.
counted()
{
    rm -f "$SCRATCH/opens"
    SLOW_FILES_MATCH=.jp SLOW_FILES_LOG=$SCRATCH/opens \
        LD_PRELOAD=$PWD/build/slow_files.so train "$@"
    opens=$(cat "$SCRATCH/opens" 2> /dev/null | awk '{ n += $2 } END { print n + 0 }')
}

ranks=(1)
have_mpi && ranks=(1 2)
for n in "${ranks[@]}"; do
    share=$((8 / n))
    counted "page$n" "$n" train.epochs=3 "train.batch_per_rank=$share" data.cache=page
    ((opens >= 3 * files)) ||
        broken "page on $n: $opens files opened, expected $((3 * files)) at least"
    counted "ram$n" "$n" train.epochs=3 "train.batch_per_rank=$share" data.cache=ram \
        data.cache_mb=64
    expect_text "ram on $n" 1 "data.cache: files are kept in memory" # not by the other ranks
    compared=$((n > 1 ? 64 * n : 0)) # before the first step, among the ranks
    ((opens == 2 * files + compared)) || broken "ram on $n: $opens files opened, expected $files," \
        "$files more to have them forgotten, and $compared that ranks compare"
    same "cache on $n" "page$n" "ram$n"
    train "none$n" "$n" train.epochs=3 "train.batch_per_rank=$share" data.cache=none
    same "no cache on $n" "page$n" "none$n"
    # A file that the first run fills and the second finds; then one that is partly overwritten.
    disk=(train.epochs=3 "train.batch_per_rank=$share" data.cache=disk
        "data.cache_dir=$SCRATCH/disk$n" data.cache_mb=64)
    counted "disk$n" "$n" "${disk[@]}"
    expect_text "disk on $n" 1 "up to 0.1 GiB; it already has 0"
    ((opens == files + compared)) || broken "disk on $n: $opens files opened, expected $files" \
        "and $compared that ranks compare"
    same "disk on $n" "page$n" "disk$n"
    counted "again$n" "$n" "${disk[@]}"
    expect_text "disk again on $n" 1 "; it already has $files"
    ((opens == compared)) || broken "disk again on $n: $opens files opened, not $compared"
    same "disk again on $n" "page$n" "again$n"
    dd if=/dev/zero of="$(echo "$SCRATCH/disk$n"/*.cache)" bs=1k seek=40 count=20 conv=notrunc \
        2> /dev/null
    counted "damaged$n" "$n" "${disk[@]}"
    expect_text "damaged on $n" some "a cached sample is damaged"
    ((opens > compared && opens < compared + files)) || broken "damaged on $n: $opens files opened"
    same "damaged on $n" "page$n" "damaged$n"
    : > "$(echo "$SCRATCH/disk$n"/*.cache)"
    counted "torn$n" "$n" "${disk[@]}"
    expect_text "torn on $n" 1 "is not a cache of these files; it is created again"
    ((opens == files + compared)) || broken "torn on $n: $opens files opened"
    # The same under a run: it goes on, and the file is not touched any more.
    train_in_background "cut$n" "$n" "${disk[@]}" train.epochs=20000 schedule.name=constant
    wait_for_step "cut$n" 16
    : > "$(echo "$SCRATCH/disk$n"/*.cache)"
    wait_for_step "cut$n" $(($(field "cut$n" step step) + 16))
    expect "stop on $n" 0 run 1 stop "$SCRATCH/cut$n"
    wait_to_end 60
    cp "$SCRATCH/cut$n.out" "$out"
    ((code == 75)) || broken_run "cut short on $n: exit code $code, expected 75"
    expect_text "cut short on $n" "$n" "disk$n/$(basename "$SCRATCH/disk$n"/*.cache): truncated"
    train "both$n" "$n" train.epochs=3 "train.batch_per_rank=$share" data.cache=ram \
        data.cache_mb=1 "data.val=$SCRATCH/data/val"
    same "training and validation set on $n" "page$n" "both$n"
done

train_fails dirless 64 "data.cache_dir must be set with data.cache: disk" 1 data.cache=disk
train_fails idle 64 "data.cache_dir requires data.cache: disk" 1 "data.cache_dir=$SCRATCH/disk1"
train_fails full 64 "MiB free, less than 900000000" "${ranks[-1]}" data.cache=disk \
    "data.cache_dir=$SCRATCH/full" data.cache_mb=900000000
# A disk with no room for a cache, and nobody asked for more.
full=$SCRATCH/full_disk
mkdir "$full"
if mount -t tmpfs -o size=1m tmpfs "$full" 2> /dev/null; then
    trap 'umount "$full"' EXIT
    n=${ranks[-1]}
    train "small_disk$n" "$n" data.cache=disk "data.cache_dir=$full" train.epochs=3 \
        "train.batch_per_rank=$((8 / n))"
    expect_text "no room" 1 "data.cache_dir: $full has no space for $full/"
    same "no room" "page$n" "small_disk$n"
else
    echo "not tested: a disk with no room for a cache: mount is not allowed"
fi
train_fails foreign 74 "data.cache_dir" "${ranks[-1]}" data.cache=disk data.cache_mb=1 \
    data.cache_dir=/proc/none
train_fails huge 64 "data.cache_mb: 900000000 MiB are more than the" "${ranks[-1]}" data.cache=ram \
    data.cache_mb=900000000
exit "$failed"
