#!/usr/bin/env bash
# figures.sh - scripts that pages name as the source of a figure and that no other test runs, once
# each on small input: they end, and print the figure. What needs PyTorch is not among them.
source tests/e2e/lib/common.sh

# figure WHAT LINE COMMAND... - the command ends with 0, and a line that it prints fits LINE.
figure()
{
    local what=$1 line=$2
    shift 2
    expect "$what" 0 timeout 100 "$@"
    grep -qE -- "$line" "$out" || broken_run "$what: no line '$line'"
}

number='[0-9]+(\.[0-9]+)?'
"$tools"/make_shapes "$SCRATCH/data" --train 13 --val 2 --size 32 > "$out" ||
    broken_run "cannot make images"
ln -s val "$SCRATCH/data/test"

figure "files that are slow" "^medians of 1 rounds: 0 ms $number images/s; 5 ms $number of" \
    env SIZE=32 STEPS=3 WARMUP=1 BATCH=4 THREADS=1 \
    scripts/bench/bench_slow_storage.sh "$SCRATCH/data/train" 1
if taskset -c 0,1 true 2> /dev/null; then
    figure "threads and processes" "^median of 1 rounds: threads over processes $number" \
        env N=2 CONFIG=configs/resnet20-cifar10.yaml STEPS=4 BATCH=4 \
        scripts/bench/bench_scaling.sh "$SCRATCH/data/train" 1
    figure "an index" "^  index: [1-9][0-9]* bytes, [1-9][0-9]* an image$" \
        env SHAPES="2 3" scripts/bench/bench_index.sh "$SCRATCH/index"
    grep -qE "^  scan, .*: $number s$" "$out" || broken_run "an index: no time of the scan"
else
    echo "not tested: rates of threads and of the index: no two CPUs 0 and 1 here"
fi

# A plain folder of images, which is one class: only training needs two.
mkdir -p "$SCRATCH/plain" "$SCRATCH/tree"
cp "$SCRATCH/data/train/star/"*.jpg "$SCRATCH/plain"
ln -s "$SCRATCH/plain" "$SCRATCH/tree/one"
small=("data.train=$SCRATCH/tree" data.image_size=32 data.threads=1 data.index=off
    train.batch_per_rank=2 device.threads=1)
figure "decoding one class" "images_per_s_per_thread" "$CONVOY" bench decode "${small[@]}" --steps 1
figure "loading one class" "images_per_s" "$CONVOY" bench loader "${small[@]}" --steps 2 --warmup 1
figure "steps of one class" "images_per_s" "$CONVOY" bench step "${small[@]}" model.name=mlp \
    --steps 1 --warmup 1

# The kinds that take a second or two. The others: faults.sh, stop.sh, handshake.sh have them.
mkdir "$SCRATCH/hunt"
figure "what was tried" "^[1-9][0-9]* passed, 0 f" env SCRATCH="$SCRATCH/hunt" \
    scripts/dev/hunt.sh --tries 1 commands containers clock
for kind in commands containers clock; do
    grep -qE "^$kind: ([1-9][0-9]*) of \1$" "$out" || broken_run "what was tried: no line of $kind"
done

command -v python3 > /dev/null || { echo "not tested: scripts in Python: none" && exit "$failed"; }
figure "rules at large batches" "^\| \`sgd\` \| (diverged|$number %) \|$" \
    python3 scripts/bench/compare_large_batch.py "$SCRATCH/data" --convoy "$CONVOY" --epochs 1 \
    --accumulate 1 --rules sgd --rates 1.6 --precision fp32
figure "a teacher" "^top-1: $number without a teacher, $number with; difference -?$number " \
    python3 scripts/bench/compare_distil.py "$SCRATCH/data" "$SCRATCH/distil" --convoy "$CONVOY" \
    --student resnet20 --teacher resnet20 --seeds 1 --epochs 1 --teacher-epochs 1 \
    data.image_size=32 train.max_steps=1 train.batch_per_rank=8
mkdir -p "$SCRATCH/none/torch" # PyTorch that cannot be imported
echo 'raise ImportError' > "$SCRATCH/none/torch/__init__.py"
export CONVOY_TOOLS=$tools
figure "decoders in evaluation" "eval convoy huffman \+ index: " env PYTHONPATH="$SCRATCH/none" \
    python3 scripts/bench/bench_decode_peers.py "$SCRATCH/plain" --rounds 1 --convoy "$CONVOY"
figure "decoders in training" "train convoy libjpeg: " env PYTHONPATH="$SCRATCH/none" \
    python3 scripts/bench/bench_decode_peers.py "$SCRATCH/data/train" --rounds 1 --only train \
    --augment randaugment --convoy "$CONVOY"
have_mpi || exit "$failed"
figure "restarts" "^\| \*\*all\*\* \| $number \| $number \| $number \|$" \
    python3 scripts/bench/measure_restarts.py "$SCRATCH" --kills 1 --checkpoints 2 \
        model.name=resnet20 \
    data.image_size=32 data.eval_resize=32
grep -qE "^a checkpoint stops training: median $number s" "$out" ||
    broken_run "restarts: no time of a checkpoint"
exit "$failed"
