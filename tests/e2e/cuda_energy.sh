#!/usr/bin/env bash
# cuda_energy.sh - joules of the GPUs that ranks compute on, by a fake NVML whose first GPU counts
# 312.5 W and bears the emulated device's name: ranks that share it count it once.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
if ! emulated; then
    echo "the fake NVML has no GPU of a real machine's name"
    exit 77
fi
make_tiny_config
export LD_LIBRARY_PATH=$PWD/${CONVOY_TOOLS:-build}/fake_nvml:${LD_LIBRARY_PATH:-}
host=$(uname -n)

# power RUN - what the GPU took behind the start, for as long as which it may not have counted.
power()
{
    awk '
        function value(key) {
            if (!match($0, "\"" key "\":[0-9.e+-]+")) return 0
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
        }
        /"event":"spent"/ && !/"part":"start"/ { j += value("gpu_j"); s += value("host_seconds") }
        END { print j " J in " s " s"; exit !(s > 0 && j > 309 * s && j < 316 * s) }
    ' "$SCRATCH/$1/metrics.jsonl" > "$out" || broken_run "$1: not 312.5 W"
}

train one 1 cost.powercap= "monitor.prometheus=$SCRATCH/%h.prom"
expect_field "one" one spent energy_source "1 of 1 GPUs by NVML's counter"
power one
grep -qE "^convoy_energy_joules_total\{run=\"[^\"]*/one\",source=\"gpu\",host=\"$host\"\} [1-9]" \
    "$SCRATCH/$host.prom" || broken "Prometheus does not tell of energy"
if have_mpi; then
    train two 2 cost.powercap= train.batch_per_rank=2
    expect_field "two" two spent energy_source "1 of 1 GPUs by NVML's counter"
    power two
fi
exit "$failed"
