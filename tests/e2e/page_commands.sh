#!/usr/bin/env bash
# page_commands.sh - what pages name as the source of a figure and needs no other framework still
# runs: once, on little. What it measures is not looked at.
source tests/e2e/lib/common.sh
"$tools"/make_shapes "$SCRATCH/data" --train 2 --val 1 --size 64 || broken "make_shapes failed"
make_config
tree=$SCRATCH/data/train
mkdir -p "$SCRATCH/plain" "$SCRATCH/none/torch"
cp "$tree/star/"*.jpg "$SCRATCH/plain"
export CONVOY_TOOLS=$tools

# page_command TEXT COMMAND... - ends with 0 and says TEXT.
page_command()
{
    local text=$1
    shift
    expect "$*" 0 timeout 120 "$@"
    grep -qF -- "$text" "$out" || broken_run "$*: does not say '$text'"
}

# docs/benchmarks.md: a folder of images, which is one class; torch that cannot be imported
echo 'raise ImportError' > "$SCRATCH/none/torch/__init__.py"
page_command "eval convoy huffman + index: " env PYTHONPATH="$SCRATCH/none" \
    python3 scripts/bench_decode_peers.py "$SCRATCH/plain" --rounds 1 --convoy "$CONVOY"
page_command "train convoy libjpeg: " env PYTHONPATH="$SCRATCH/none" \
    python3 scripts/bench_decode_peers.py "$tree" --rounds 1 --only train --augment randaugment \
    --convoy "$CONVOY"
ln -s "$SCRATCH/plain" "$SCRATCH/one"
mkdir "$SCRATCH/tree" && mv "$SCRATCH/one" "$SCRATCH/tree/one"
small=("data.train=$SCRATCH/tree" data.image_size=32 data.threads=1 data.index=off
    train.batch_per_rank=2 device.threads=1)
page_command "images_per_s_per_thread" "$CONVOY" bench decode "${small[@]}" --steps 1
page_command "images_per_s" "$CONVOY" bench loader "${small[@]}" --steps 2 --warmup 1
page_command "images_per_s" "$CONVOY" bench step "${small[@]}" model.name=mlp --steps 1 --warmup 1

# docs/data.md and docs/benchmarks.md
STEPS=2 WARMUP=1 SIZE=32 BATCH=4 THREADS=1 page_command "medians of 1 rounds" \
    scripts/bench_slow_storage.sh "$tree" 1
if taskset -c 0,1 true 2> "$out"; then
    N=2 STEPS=4 BATCH=2 page_command "median of 1 rounds" scripts/bench_scaling.sh "$tree" 1
    page_command "an image" scripts/bench_index.sh "$SCRATCH/many" 3 5
fi
exit "$failed"
