#!/usr/bin/env bash
# sam.sh - optimizer.sam_rho in whole runs: weights and statistics come back to the bit, ranks
# change nothing, a run goes on as if it had not been stopped, and what cannot be is refused.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
steady=(schedule.name=constant train.epochs=9)
sam=("${steady[@]}" optimizer.sam_rho=0.5)

# At rate 0 nothing is left of a step but the first pass's statistics.
still=(optimizer.lr=0 optimizer.momentum=0 train.max_steps=4)
train still 1 "${steady[@]}" "${still[@]}"
train still_sam 1 "${sam[@]}" "${still[@]}"
same "at rate 0, with sam and without" still still_sam
[[ $(losses still) == "$(losses still_sam)" ]] || broken "at rate 0: the losses differ"

train plain 1 "${steady[@]}" train.max_steps=7
train whole 1 "${sam[@]}" train.max_steps=7
far "sam is another run" plain whole 1e-2
[[ $(losses plain | head -n 1) == "$(losses whole | head -n 1)" ]] ||
    broken "the first loss is not that of the first pass"
sound_metrics whole

# Steps 1 and 4 of each six have two passes.
third=("${sam[@]}" optimizer.sam_interval=3)
train third 1 "${third[@]}" train.max_steps=7
far "every third step is another run" whole third 1e-3
train parts 1 "${third[@]}" train.max_steps=2
train parts 1 "${third[@]}" train.max_steps=5
train parts 1 "${third[@]}" train.max_steps=7
same "7 steps and 2 + 3 + 2" third parts
[[ $(losses third) == "$(losses parts)" ]] || broken "7 steps and 2 + 3 + 2: the losses differ"
train traced 1 "${third[@]}" train.max_steps=7 log.trace_steps=1-6
same "traced or not" third traced
[[ $(grep -o '"name":"perturb"' "$SCRATCH/traced/trace-0.json" | wc -l) == 2 ]] ||
    broken "traced: not two of six steps have two passes"
[[ $(grep -o '"name":"conv1"' "$SCRATCH/traced/trace-0.json" | wc -l) == 8 ]] ||
    broken "traced: not eight passes in six steps"
[[ $(grep -o '"name":"restore [a-z ]*"' "$SCRATCH/traced/trace-0.json" | wc -l) == 4 ]] ||
    broken "traced: weights and statistics do not come back in two steps"

# Norm and clipping are the second pass's.
train logged 1 "${sam[@]}" train.max_steps=4 log.grad_norm=true
train unlogged 1 "${sam[@]}" train.max_steps=4
same "logging the norm" logged unlogged
smallest=$(norms logged | awk '{ print $2 }' | sort -g | head -n 1)
largest=$(norms logged | awk '{ print $2 }' | sort -g | tail -n 1)
train loose 1 "${sam[@]}" train.max_steps=4 \
    "optimizer.clip_norm=$(awk -v n="$largest" 'BEGIN { print 1.01 * n }')"
same "clipping at more than any norm" loose unlogged
train clipped 1 "${sam[@]}" train.max_steps=4 \
    "optimizer.clip_norm=$(awk -v n="$smallest" 'BEGIN { print n / 4 }')"
far "clipping at a quarter of the norm" clipped unlogged 1e-3

train sizes 1 "${sam[@]}" "data.progressive_sizes=24" "data.progressive_until=1" train.epochs=2 \
    train.max_steps=18

# Over any other optimizer, whose state is that of the second pass.
train adam 1 "${sam[@]}" optimizer.name=adamw optimizer.lr=0.001 train.max_steps=4
train adam_plain 1 "${steady[@]}" optimizer.name=adamw optimizer.lr=0.001 train.max_steps=4
far "sam over adamw" adam adam_plain 1e-4

# Memory: parameters and statistics once more.
expect "memory" 0 run 1 inspect memory "$SCRATCH/small.yaml" optimizer.sam_rho=0.5
awk '/^parameters +[0-9]/ { p = $2 } /^running statistics/ { s = $3 }
    /^parameters kept by sam_rho/ { k = $5 } END { exit !(k > 0 && k == p + s) }' "$out" ||
    broken_run "memory: what is kept is not parameters and statistics"
expect "memory without" 0 run 1 inspect memory "$SCRATCH/small.yaml"
expect_text "memory without" 0 "sam_rho"
expect "bench" 0 run 1 bench step "$SCRATCH/small.yaml" --steps 4 --nodes optimizer.sam_rho=0.5 \
    optimizer.sam_interval=2
expect_text "bench" 1 "allocations 0"

train_fails refused 64 "optimizer.sam_rho: a step would be 2 micro-batches" 1 "${sam[@]}" \
    train.accumulate=2
train_fails refused 64 "optimizer.sam_rho: a step would be 2 micro-batches" 1 "${sam[@]}" \
    train.batch_mode=global train.global_batch=16
train_fails refused 64 "optimizer.sam_rho" 1 optimizer.sam_rho=-1
train_fails refused 64 "optimizer.sam_interval" 1 optimizer.sam_rho=1 optimizer.sam_interval=0

# One gradient of the global batch, whatever the ranks: to 1e-6 where no ReLU lies so close to zero
# that another order of sums takes it to the other side, which moves a gradient by 1e-3. With AVX2
# and direct sums none of this seed does; with AVX-512 or Winograd one does, as of 2 in 6 other
# seeds.
if have_mpi; then
    export ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2
    frozen=("${sam[@]}" optimizer.sam_rho=0.05 model.bn=frozen train.max_steps=4
        device.winograd=false)
    train one 1 "${frozen[@]}"
    train one_plain 1 "${frozen[@]}" optimizer.sam_rho=0
    far "sam with frozen norms" one one_plain 1e-3
    train two 2 "${frozen[@]}" train.batch_per_rank=4
    train four 4 "${frozen[@]}" train.batch_per_rank=2
    near "1 x 8 and 2 x 4" one two 1e-5
    near "1 x 8 and 4 x 2" one four 1e-5
    unset ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA
    train still2 2 "${steady[@]}" "${still[@]}" train.batch_per_rank=4
    train still2_sam 2 "${sam[@]}" "${still[@]}" train.batch_per_rank=4
    same "at rate 0 on two ranks, with sam and without" still2 still2_sam

    # A rank without its images takes part in the sums of both passes.
    no_grace
    for ((i = 1; i < 8; i += 2)); do
        find "$SCRATCH/data/train" -name "*$i.jpg" -exec truncate -s 100 {} +
    done
    train_fails broken 65 "data.max_bad_fraction" 2 "${sam[@]}" train.batch_per_rank=4 \
        data.max_bad_fraction=0.01
fi
exit "$failed"
