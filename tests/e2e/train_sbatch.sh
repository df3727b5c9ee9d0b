#!/usr/bin/env bash
# train_sbatch.sh - scripts/slurm/train.sbatch with stand-ins for Slurm, mpirun and nvidia-smi:
# ranks from GPUs, and after which ends a job is requeued. (A real Slurm: slurm.sh, slurm_nodes.sh.)
source tests/e2e/lib/common.sh
mkdir "$SCRATCH/bin"
printf '#!/bin/sh\necho "started: $*"\nexit "${STUB_CODE:-0}"\n' > "$SCRATCH/bin/mpirun"
# A real one would end the script.
printf '#!/bin/sh\n%s\nexit 1\n' \
    'echo "scontrol $* PreemptTime=${STUB_PREEMPTED:-now}" \
        "OverSubscribe=${STUB_SHARED:-NO}"' > "$SCRATCH/bin/scontrol"
printf '#!/bin/sh\nfor i in 0 1; do echo "GPU $i: NVIDIA H100 (UUID: GPU-$i)"; done\n' \
    > "$SCRATCH/bin/nvidia-smi"
chmod +x "$SCRATCH"/bin/*

# job VARIABLE=VALUE... - the script in such a job of three nodes.
job()
{
    env -u SLURM_GPUS_ON_NODE -u RANKS PATH="$SCRATCH/bin:/usr/bin:/bin" CONVOY="$CONVOY" \
        LAUNCHER=mpirun SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=3 \
        SLURM_JOB_NODELIST='n[1-3]' "$@" bash scripts/slurm/train.sbatch config.yaml
}

while read -r ranks set; do
    expect "${set:-nothing set}" 0 job ${set:+"$set"}
    expect_text "${set:-nothing set}" some "started: -np $((3 * ranks)) --map-by ppr:$ranks:node"
done << END
8 SLURM_GPUS_ON_NODE=8
4 SLURM_GPUS_ON_NODE=h100:4
5 RANKS=5
2
END
# GPUs of a node that others use too are not the job's, unless Slurm gave it some.
for shared in YES OK; do
    expect "shared" 0 job STUB_SHARED=$shared
    expect_text "shared" some "--map-by ppr:1:node"
    expect "shared, with GPUs" 0 job STUB_SHARED=$shared SLURM_GPUS_ON_NODE=2
    expect_text "shared, with GPUs" some "--map-by ppr:2:node"
done
rm "$SCRATCH/bin/nvidia-smi"
expect "no GPUs" 0 job
expect_text "no GPUs" some "--map-by ppr:1:node"

while read -r code requeues; do
    expect "end with $code" "$code" job STUB_CODE="$code"
    expect_text "end with $code" "$requeues" "scontrol requeue 7"
done << END
75 1
76 1
137 1
0 0
64 0
65 0
71 0
78 0
END
expect "stopped by its user" 75 job STUB_CODE=75 STUB_PREEMPTED=None
expect_text "stopped by its user" 0 "scontrol requeue"
expect "too many restarts" 75 job STUB_CODE=75 SLURM_RESTART_COUNT=50
expect_text "too many restarts" 0 "scontrol requeue"
exit "$failed"
