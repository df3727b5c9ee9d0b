#!/usr/bin/env bash
# caps.sh - what depends on the order of sums, in the orders of CPUs that have less than this one:
# gradients and steps of whole networks, every operation; those in bf16 with AVX2 alone, before
# which nobody will run them. It is oneDNN that is capped. Convoy's own loops add up in one order
# whatever the instructions; `make asan` has them without fused multiplications.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
source scripts/tally.sh
tally_begin
kinds='golden\.gradients|optimizer|sharpness|param_rules|fuse_conv\.the_cpu'
build/unit --list | grep -E "^($kinds)" > "$tally_folder/tests"
for row in SSE41:cpu:fp32 AVX:cpu:fp32 AVX2:cpu; do
    isa=${row%%:*}
    export ONEDNN_MAX_CPU_ISA=$isa DNNL_MAX_CPU_ISA=$isa
    tally_run "unit with $isa" build/unit --tests="$tally_folder/tests"
    tally_run "ops with $isa" build/ops --backend="${row#*:}"
done
tally_end
