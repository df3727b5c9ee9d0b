#!/usr/bin/env bash
# cuda_nodes.sh - how many pieces of work a recorded step of ResNet-50 consists of: each costs a
# GPU some microseconds to start and to end. Images of 32 pixels have the nodes of those of 224. A
# convolution counts once: how many kernels cuDNN's engine for it launches is not known here.
# first: it takes a minute or two
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
emulated || {
    echo "only the test double lists what a recording holds"
    exit 77
}

# record WHAT SETTING... - a step of ResNet-50; its nodes go to $SCRATCH/WHAT.
record()
{
    local what=$1
    shift
    CONVOY_EMU_NODES=$SCRATCH/$what "$CONVOY" bench step configs/resnet50-imagenet.yaml \
        device.backend=cuda device.threads=1 device.plan_cache=none data.threads=1 \
        data.image_size=32 data.eval_resize=0 train.batch_per_rank=2 "$@" --warmup 2 --steps 1 \
        > "$out" 2>&1 || broken_run "$what"
    sed 's/^/    /' "$SCRATCH/$what" # shown where something does not hold
}

# holds WHAT MOST - so many nodes in all, and the recording is one.
holds()
{
    local nodes
    nodes=$(sed -n 's/^graph //p' "$SCRATCH/$1")
    [[ $nodes =~ ^[0-9]+$ ]] || broken "$1: not one step was recorded, but: ${nodes:-none}"
    ((nodes <= $2)) || broken "$1: $nodes nodes in a recorded step, of at most $2"
}

# counts WHAT NUMBER KIND - nodes whose name has KIND in it.
counts()
{
    local nodes
    nodes=$(awk -v kind="$3" 'index($2 $3 $4, kind) { sum += $1 } END { print sum + 0 }' \
        "$SCRATCH/$1")
    ((nodes == $2)) || broken "$1: $nodes nodes are $3, not $2"
}

# Where a norm is wanted, gradients are looked through, measured, updated and converted by bucket.
make_tiny_config
CONVOY_EMU_NODES=$SCRATCH/buckets train tiny 1 train.precision=fp16 train.max_steps=3 \
    optimizer.clip_norm=1 comm.bucket_mb=0.3
for kind in finite_check grad_squares update_kernel cast_list; do
    counts buckets 4 "$kind"
done

for precision in bf16 fp16; do
    record "$precision" "train.precision=$precision" device.fuse=none
    holds "$precision" 390
    counts "$precision" 158 convolution
    counts "$precision" 212 bn_         # two passes forward and two backward, of 53 norms
    counts "$precision" 3 cast_list     # 47 MB of weight gradients, at most 16 MiB at a time
    counts "$precision" 0 cast_kernel   # none by itself
    counts "$precision" 1 update_kernel # on one rank
done
counts fp16 1 finite_check

# The stem's norm and pooling at once: neither pooling by itself, and no more of the norm.
record pooled train.precision=bf16 device.fuse=pool,pool_gradient
holds pooled 384
counts pooled 212 bn_
counts pooled 0 pool_max
counts pooled 0 '(pool_bwd' # of which avgpool_bwd_kernel has no part
exit "$failed"
