#!/usr/bin/env bash
# disk_full.sh - where nothing can be written: exit code 74, one line that names the file, the
# checkpoints that were there stay, and with room again the run goes on to the same bits.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 1
make_config
no_grace
ranks=(1)
have_mpi && ranks=(1 2)
long=(checkpoint.every_steps=1 checkpoint.keep=9 schedule.name=constant)
run_limit_kb=1000 # a checkpoint has 2 MB, the other files of a run a few kB

# recovers WHAT RUN RANKS - the checkpoint that was there is still good, no part of another one is
# left, and the run can be ended.
recovers()
{
    local file leftovers
    file=$(newest "$2")
    expect "$1: the newest checkpoint" 0 run 1 inspect checkpoint "$file"
    leftovers=$(find "$SCRATCH/$2/checkpoints" -name '*.tmp-*')
    [[ -z $leftovers ]] || broken "$1: temporary files stay: $leftovers"
    train "$2" "$3" "${long[@]}"
    expect_text "$1" 1 "resumed from $file at step"
    same "$1" "unbroken$3" "$2"
}

# A limit on the size of files, met in the middle of a checkpoint of a run that has a good one. (Not
# under mpirun, which has large files of its own.)
train unbroken1 1 "${long[@]}"
train limit 1 "${long[@]}" train.max_steps=3
settings limit "${long[@]}"
# shellcheck disable=SC2016 # the inner shell's words
expect "file size limit" 74 bash -c 'ulimit -f "$1"; shift; exec timeout 60 "$@"' limited \
    "$run_limit_kb" "$CONVOY" train "${sets[@]}"
expect_one_error "file size limit" "$SCRATCH/limit/checkpoints/step-"
sound_metrics limit
expect_field "file size limit" limit "done" code 74
recovers "file size limit" limit 1

for n in "${ranks[@]}"; do
    # The folder of the checkpoints goes away under a run.
    train_in_background "lost$n" "$n" "${long[@]}" train.epochs=20000
    wait_for_step "lost$n" 3
    mv "$SCRATCH/lost$n/checkpoints" "$SCRATCH/lost$n/elsewhere"
    wait_to_end 60
    cp "$SCRATCH/lost$n.out" "$out"
    ((code == 74)) || broken_run "folder lost on $n: exit code $code, expected 74"
    expect_one_error "folder lost on $n" "$SCRATCH/lost$n/checkpoints"
    grep -qE 'checkpoints(/step-|/latest: cannot|: cannot open folder)' "$out" ||
        broken_run "folder lost on $n: another file is named"
    sound_metrics "lost$n"

    # No room for the records of the run.
    mkdir -p "$SCRATCH/records$n"
    ln -s /dev/full "$SCRATCH/records$n/metrics.jsonl"
    train_fails "records$n" 74 "$SCRATCH/records$n/metrics.jsonl" "$n"

    # A place where no folder can be made.
    settings x
    expect_error "no folder" 74 "$SCRATCH/small.yaml: " "$n" train "${sets[@]}" \
        --set "run.dir=$SCRATCH/small.yaml/run"
done

# A file system of its own, if we may have one: five checkpoints fit, then it is full.
full=$SCRATCH/full
mkdir "$full"
if mount -t tmpfs -o size=11m tmpfs "$full" 2> /dev/null; then
    trap 'umount "$full"' EXIT
    n=${ranks[-1]}
    ((n == 1)) || train "unbroken$n" "$n" "${long[@]}"
    train_fails full 74 "$full/checkpoints/step-" "$n" "${long[@]}"
    head -c 11m /dev/zero > "$full/rest" 2> /dev/null
    expect_error "pack" 74 "$full/shards" 1 pack "$SCRATCH/data/train" "$full/shards"
    mount -o remount,size=99m "$full"
    recovers "a full file system" full "$n"
else
    echo "not tested: a file system that is full: mount is not allowed (the file size limit is)"
fi

# A file that a command was asked for. (What is a device is written to in place.)
for name in a.index a.onnx a.safetensors a.html a.csv; do ln -s /dev/full "$SCRATCH/$name"; done
settings limit
for command in "index $SCRATCH/data/train --out $SCRATCH/a.index" \
    "export $SCRATCH/limit $SCRATCH/a.onnx" \
    "export $SCRATCH/limit $SCRATCH/a.safetensors" "report $SCRATCH/limit --out $SCRATCH/a.html" \
    "preview $SCRATCH/limit --out $SCRATCH/a.html" \
    "eval $SCRATCH/limit data.val=$SCRATCH/data/val --confusion $SCRATCH/a.csv" \
    "bench step ${sets[*]} --steps 1 --layers $SCRATCH/a.csv" \
    "find-lr ${sets[*]} --steps 20 --csv $SCRATCH/a.csv"; do
    # shellcheck disable=SC2086 # words
    expect_error "${command%% *} into a full file" 74 "$SCRATCH/a." 1 $command
done
train unlogged 1 log.file=/dev/full train.max_steps=1
expect_text "a log that is full" 1 "/dev/full: cannot write: No space left on device"

# The answer of a command.
for command in "--help" "--version" "inspect config" "inspect model resnet18" \
    "index $SCRATCH/data/train --out $SCRATCH/b.index" "bench allreduce --max-bytes 64" \
    "eval $SCRATCH/limit data.val=$SCRATCH/data/val"; do
    # shellcheck disable=SC2086 # words
    "$CONVOY" $command > /dev/full 2> "$out"
    code=$?
    ((code == 74)) || broken_run "$command into a full file: exit code $code, expected 74"
    expect_one_error "$command into a full file" "standard output"
done
exit "$failed"
