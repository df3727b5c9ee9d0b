#!/usr/bin/env bash
# trace.sh - log.trace_steps: a file that viewers read for each rank, whose lanes hold what they
# should; and the same results as without.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 1
make_config
ranks=1
have_mpi && ranks=2
base=(train.batch_per_rank=2 train.accumulate=2 train.epochs=9 train.max_steps=6 data.threads=1
    data.readers=1 comm.bucket_mb=0.2)

train plain "$ranks" "${base[@]}"
train traced "$ranks" "${base[@]}" log.trace_steps=3-5 checkpoint.every_steps=4
same "traced or not" plain traced
for ((r = 0; r < ranks; r++)); do
    expect "trace of rank $r" 0 "$tools"/make_tracecheck "$SCRATCH/traced/trace-$r.json" steps \
        compute communication decode-0
    [[ $(grep '^step ' "$out" | tr '\n' ' ') == "step 3 step 4 step 5 " ]] ||
        broken_run "rank $r: not steps 3 to 5"
    expect_text "trace of rank $r" some "compute "
done
expect "trace of rank 0" 0 "$tools"/make_tracecheck "$SCRATCH/traced/trace-0.json" copy
grep -q '"name":"layer1.0.conv1"' "$SCRATCH/traced/trace-0.json" ||
    broken "no span of layer1.0.conv1"
grep -q '"name":"bucket 1"' "$SCRATCH/traced/trace-0.json" || broken "no sum of bucket 1"

# A run that ends within the range leaves what it has.
train short 1 "${base[@]}" train.max_steps=2 log.trace_steps=2-100
expect "short" 0 "$tools"/make_tracecheck "$SCRATCH/short/trace-0.json" steps compute
[[ $(grep -c '^step ' "$out") == 1 ]] || broken_run "short: not one step"
train_fails wrong 64 "log.trace_steps is \"5-3\"" 1 log.trace_steps=5-3
exit "$failed"
