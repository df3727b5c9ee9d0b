#!/usr/bin/env bash
# cuda_launch.sh - convoy launch -n auto: a rank for each GPU, unless the run is for the CPU.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config
mkdir "$SCRATCH/bin"
printf '#!/bin/sh\necho "mpirun: $*"\nexit 64\n' > "$SCRATCH/bin/mpirun"
chmod +x "$SCRATCH/bin/mpirun"
export PATH=$SCRATCH/bin:$PATH

# auto GPUS RANKS LINE KEY=VALUE... - with so many GPUs there are so many ranks, and LINE is said.
auto()
{
    settings "of-$1-$2" "${@:4}"
    expect "$1 GPUs" 64 env CONVOY_EMU_DEVICES="$1" "$CONVOY" launch -n auto -- train "${sets[@]}"
    expect_text "$1 GPUs" 1 "-n auto: $3"
    expect_text "$1 GPUs" 1 "-np $2 "
}
auto 3 3 "3 GPUs"
auto 1 1 "1 GPU"
auto 3 1 "one rank with all cores: device.backend is cpu" device.backend=cpu
auto 0 1 "one rank with all cores: no CUDA device is visible"
exit "$failed"
