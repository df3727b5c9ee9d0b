#!/usr/bin/env bash
# slurm.sh - scripts/slurm/train.sbatch in a real Slurm on this machine: a job that is asked to
# leave saves a checkpoint, is requeued, and ends with the bits of a run that was never asked, by
# srun and by mpirun; so does one that has to make room for another job.
source tests/e2e/lib/common.sh
source tests/e2e/lib/minislurm.sh
slurm_begin 2

fixed=(train.max_steps=200 train.epochs=400 data.readers=1)
train unbroken 2 "${fixed[@]}"
for LAUNCHER in srun mpirun; do
    export LAUNCHER
    slowly 1 submit "$LAUNCHER" --nodes=2 -- "${fixed[@]}"
    wait_for_step "$LAUNCHER" 5
    scancel --batch --signal=USR1 "$job"
    wait_for_starts "$LAUNCHER" "2 2" 90
    slurm_wait "$job" COMPLETED 120 || broken "$LAUNCHER: the job is $(slurm_state "$job")"
    [[ $(events "$LAUNCHER" resume) == 1 ]] ||
        broken "$LAUNCHER: $(events "$LAUNCHER" resume) resume events, expected 1"
    same "asked to leave and requeued, by $LAUNCHER" unbroken "$LAUNCHER"
done
unset LAUNCHER

# convoy launch -n in a job: ranks on this host, whatever Slurm calls it.
settings on-one-host train.max_steps=3
job=$(sbatch --parsable --nodes=1 --cpus-per-task=2 --output="$SCRATCH/on-one-host.log" \
    --wrap "$CONVOY launch -n 2 -- train ${sets[*]}")
slurm_wait "$job" COMPLETED 60 || {
    broken "launch -n in a job: it is $(slurm_state "$job")"
    sed 's/^/    /' "$SCRATCH/on-one-host.log"
}
expect_field "launch -n in a job" on-one-host start world 2

# Another MPI, another way to start it.
if "$CONVOY" --version | grep '^MPI: .*MPICH (lib' > /dev/null &&
    srun --mpi=list 2>&1 | grep -q pmi2; then
    settings pmi2 train.max_steps=3
    expect "srun --mpi=pmi2" 0 timeout --kill-after=5 120 srun --mpi=pmi2 --nodes=2 -n 2 \
        "$CONVOY" train --verbose "${sets[@]}"
    expect_text "srun --mpi=pmi2" 1 "MPI: MPICH"
    expect_field "srun --mpi=pmi2" pmi2 start world 2
else
    echo "not tested: srun --mpi=pmi2: no MPICH here, or Slurm does not know it"
fi

# Slurm takes the header as it is, for the sizes of the pages too; nothing is started.
for size in --nodes=1 --nodes=1-2; do
    expect "--test-only $size" 0 sbatch --test-only "$size" scripts/slurm/train.sbatch \
        configs/resnet50-imagenet.yaml
done
expect "--test-only, more nodes than there are" 1 sbatch --test-only \
    --nodes=3 scripts/slurm/train.sbatch configs/resnet50-imagenet.yaml

# A job of a partition with more priority wants both nodes: this one saves, makes room,
# and goes on after it.
submit preempted --nodes=2 -- "${fixed[@]}" train.max_steps=20000 train.epochs=40000
wait_for_step preempted 5
at=$(field preempted step step)
urgent=$(sbatch --parsable --partition=urgent --nodes=2 --exclusive --output="$SCRATCH/urgent.log" \
    --wrap 'sleep 1')
slurm_wait "$urgent" COMPLETED 60 || broken "the urgent job is $(slurm_state "$urgent")"
wait_for_starts preempted "2 2" 90
for ((tries = 0; tries < 300; tries++)); do
    [[ $(events preempted resume) == 0 ]] || break
    sleep 0.1
done
(($(field preempted resume step) >= at)) ||
    broken "preempted: resumed at step $(field preempted resume step), had done $at"
scancel "$job"

# Two jobs of two ranks share a node: each has the two CPUs that it asked for, and mpirun or srun
# starts its ranks there.
settings shared-srun train.max_steps=200000 train.epochs=100000 schedule.name=constant
first=$(CONVOY=$CONVOY RANKS=2 LAUNCHER=srun sbatch --parsable --nodes=1 --nodelist=n1 \
    --oversubscribe --cpus-per-task=2 --output="$SCRATCH/shared-srun.log" \
    scripts/slurm/train.sbatch "${sets[@]}")
settings shared-mpirun train.max_steps=5 train.epochs=9
second=$(unset "${!OMPI_MCA_rmaps@}"
    CONVOY=$CONVOY RANKS=2 LAUNCHER=mpirun sbatch --parsable --nodes=1 --nodelist=n1 \
    --oversubscribe --cpus-per-task=2 --output="$SCRATCH/shared-mpirun.log" \
    scripts/slurm/train.sbatch "${sets[@]}")
wait_for_step shared-srun 3
slurm_wait "$second" COMPLETED 60 || {
    broken "shared: the second job is $(slurm_state "$second")"
    sed 's/^/    /' "$SCRATCH/shared-mpirun.log"
}
[[ $(slurm_state "$first") == RUNNING ]] || {
    broken "shared: the first job is $(slurm_state "$first")"
    sed 's/^/    /' "$SCRATCH/shared-srun.log"
}
for run in shared-srun shared-mpirun; do
    [[ $(field "$run" start world) == 2 ]] || broken "$run: $(field "$run" start world) ranks"
done
scancel "$first"

# A network of text is trained, asked to leave and requeued as one of images.
sed 's/[^a-z ]/ /g' README.md | grep '[a-z]' > "$SCRATCH/lines"
mkdir "$SCRATCH/words"
"$tools"/make_tokens "$SCRATCH/words" "train=$SCRATCH/lines" "valid=$SCRATCH/lines" ||
    broken "make_tokens"
cat > "$SCRATCH/small.yaml" << END
model: {name: roberta_tiny, layers: 2, hidden: 128, heads: 2}
data: {dir: $SCRATCH/words, tokens: 64, threads: 1}
train: {precision: fp32, epochs: 400, batch_per_rank: 4}
optimizer: {name: adamw, lr: 1.0e-3, lr_scaling: none}
device: {backend: cpu, threads: 1}
log: {every: 1}
END
fixed=(train.max_steps=150)
train text_unbroken 2 "${fixed[@]}"
submit text --nodes=2 -- "${fixed[@]}"
wait_for_step text 5
scancel --batch --signal=USR1 "$job"
wait_for_starts text "2 2" 90
slurm_wait "$job" COMPLETED 120 || broken "text: the job is $(slurm_state "$job")"
[[ $(events text resume) == 1 ]] || broken "text: $(events text resume) resume events, expected 1"
same "text, asked to leave and requeued" text_unbroken text
slurm_end
