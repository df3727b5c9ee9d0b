#!/usr/bin/env bash
# cuda_keys.sh - keys of the GPU: what is out of range, what the machine does not have, what does
# not fit; and what is said of memory before anything runs.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

if ! emulated; then
    echo "this wants the emulated device"
    exit 77
fi
train_fails bad 64 "device.index is 1; this machine has 1 CUDA device" 1 device.index=1
train_fails bad 64 "device.index" 1 device.index=-2
train_fails bad 78 "train.precision: tf32 is not supported on the CPU" 1 \
    device.backend=cpu train.precision=tf32
train_fails bad 64 'it must be one of auto, fp32, tf32, bf16, fp16' 1 train.precision=fp8
train_fails bad 64 "train.loss_scale" 1 train.loss_scale=0.5
train_fails bad 64 "train.loss_scale_interval" 1 train.loss_scale_interval=0
train_fails bad 64 "device.workspace_mb" 1 device.workspace_mb=-1
train_fails bad 64 "device.cuda_graph" 1 device.cuda_graph=maybe
train_fails bad 64 "device.side_depth" 1 device.side_depth=65
train index 1 device.index=0 train.max_steps=1

# A GPU with a few MiB left beside what CUDA takes for itself: the batch that is said to fit does,
# one more does not.
export CONVOY_EMU_MEMORY_MB=1546
train_fails large 70 "train.batch_per_rank: 60 images need" 1 train.batch_per_rank=60
fits=$(sed -nE 's/.*; at most ([0-9]+) fit(; all fit with .*)?$/\1/p' "$out")
if [[ ! $fits =~ ^[0-9]+$ ]] || ((fits < 1 || fits >= 60)); then
    broken_run "the largest batch is ${fits:-not said}"
    exit 1
fi
train_fails larger 70 "at most $fits fit" 1 "train.batch_per_rank=$((fits + 1))"
train largest 1 "train.batch_per_rank=$fits" train.max_steps=1
settings memory "train.batch_per_rank=$fits"
expect "inspect memory" 0 run 1 inspect memory "${sets[@]}"
expect_text "inspect memory" 1 "largest batch per rank "
grep -qE "^largest batch per rank +$fits images" "$out" ||
    broken_run "inspect memory says another largest batch than $fits"
# The same where other programs hold memory of a larger one;
# half a GiB of theirs may be contexts of ours.
export CONVOY_EMU_MEMORY_MB=2570 CONVOY_EMU_HELD_MB=1536
train_fails held 70 "other programs use 1.00 GiB); at most $fits fit" \
    1 "train.batch_per_rank=$((fits + 1))"
export CONVOY_EMU_MEMORY_MB=4096 CONVOY_EMU_HELD_MB=0

# A GPU that is not here.
settings memory train.precision=auto
expect "a described GPU" 0 run 1 inspect memory "${sets[@]}" --gpu configs/gpus/h200.json
expect_text "a described GPU" 1 "NVIDIA H200 (only described), sm_90, bf16"
expect_text "a described GPU" 1 "parameters, compute type"
# One with as little as above.
sed 's/"totalGlobalMem": [0-9]*/"totalGlobalMem": 1621098496/' configs/gpus/h200.json \
    > "$SCRATCH/little.json"
expect_error "too large for a described GPU" 70 "60 images need" 1 inspect memory \
    "${sets[@]}" --set train.batch_per_rank=60 --gpu "$SCRATCH/little.json"
expect_text "too large for a described GPU" 1 "per rank at 60 images per micro-batch"
expect_text "too large for a described GPU" 1 "largest batch per rank "
expect_error "no such description" 65 "none.json" 1 inspect memory "${sets[@]}" \
    --gpu configs/gpus/none.json
echo '{"deviceName": "x"}' > "$SCRATCH/bad.json"
expect_error "half a description" 65 "$SCRATCH/bad.json" 1 inspect memory "${sets[@]}" \
    --gpu "$SCRATCH/bad.json"

settings bench
CONVOY_EMU_RANGES=$SCRATCH/ranges expect "bench" 0 run 1 bench step "${sets[@]}" --steps 2 \
    --warmup 3 --layers "$SCRATCH/layers.csv"
expect_text "bench" 1 "TFLOP/s"
for word in images_per_s conv2d_bwd_weights batchnorm_bwd update; do
    expect_text "bench" some "$word"
done
# The file of layers has the table's sums, and a profiler hears each layer's name.
awk -F, 'FNR == NR { ms[$2] += $4; next }
    $1 in ms && NF == 5 { seen++; off += $2 - ms[$1] > 0.01 || ms[$1] - $2 > 0.01 }
    END { exit !(seen > 5 && off == 0) }' "$SCRATCH/layers.csv" FS=' ' "$out" ||
    broken "bench: --layers does not add up to the table"
awk -F, 'NR > 1 && $1 !~ /^step$/ { print "convoy/" $1 }' "$SCRATCH/layers.csv" |
    sort -u > "$SCRATCH/named"
[[ -s $SCRATCH/named ]] || broken "bench: no layers in --layers"
[[ -z $(comm -23 "$SCRATCH/named" <(sort -u "$SCRATCH/ranges")) ]] ||
    broken "bench: layers that no profiler hears of"
grep -q '^convoy/.*/' "$SCRATCH/ranges" && broken "bench: ranges that are not closed"
exit "$failed"
