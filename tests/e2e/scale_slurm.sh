#!/usr/bin/env bash
# scale_slurm.sh - the lines of convoy scale --print sbatch in a real Slurm of two nodes on this
# machine, and what --collect makes of the jobs' runs.
source tests/e2e/lib/common.sh
source tests/e2e/lib/minislurm.sh
slurm_begin 2

series=$SCRATCH/series
args=("$SCRATCH/small.yaml" --set "scale.dir=$series" --set "scale.ranks=1,2" --set scale.repeats=1
    --set scale.steps=3 --set scale.warmup_steps=1
    --set scale.data=synthetic --set data.synthetic_images=64 --set model.classes=10
    --set device.threads=1)
export CONVOY
expect "lines for sbatch" 0 run 1 scale "${args[@]}" --print sbatch --per-node 1
sed "s,sbatch --job,sbatch --parsable --output=$SCRATCH/%x.log --job," "$out" > "$SCRATCH/lines"
for job in $(bash "$SCRATCH/lines"); do
    slurm_wait "$job" COMPLETED 60 || broken "job $job is $(slurm_state "$job")"
done
expect "collect" 0 run 1 scale "${args[@]}" --collect
expect_text "collect" 1 "2 of 2 points are finished"
expect_field "two nodes of one rank" series/n2-r1 start world 2
grep -q 'start 1, 2 nodes' "$SCRATCH/n2-r1.log" ||
    broken "the job of two ranks did not have two nodes"
slurm_end
