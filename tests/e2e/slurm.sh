#!/usr/bin/env bash
# slurm.sh - scripts/slurm/train.sbatch in a real Slurm on this machine: a job that is asked to leave saves a checkpoint, is requeued, and ends with the bits
# of a run that was never asked, by srun and by mpirun.
source tests/e2e/lib/common.sh
source tests/e2e/lib/minislurm.sh
slurm_begin 2

fixed=(train.max_steps=30 train.epochs=9)
train unbroken 2 "${fixed[@]}"
for LAUNCHER in srun mpirun; do
    export LAUNCHER
    submit "$LAUNCHER" --nodes=2 -- "${fixed[@]}"
    wait_for_step "$LAUNCHER" 5
    scancel --batch --signal=USR1 "$job"
    wait_for_starts "$LAUNCHER" "2 2" 90
    slurm_wait "$job" COMPLETED 120 || broken "$LAUNCHER: the job is $(slurm_state "$job")"
    [[ $(events "$LAUNCHER" resume) == 1 ]] || broken "$LAUNCHER: $(events "$LAUNCHER" resume) resume events, expected 1"
    same "asked to leave and requeued, by $LAUNCHER" unbroken "$LAUNCHER"
done
unset LAUNCHER
exit "$failed"
