#!/usr/bin/env bash
# slurm_nodes.sh - scripts/slurm/train.sbatch in a real Slurm of four nodes on this machine: a time
# limit leads to a requeue and to the bits of a run without one, a job that gets fewer nodes goes on
# with them, a node that dies is left behind.
#
# first: it waits two minutes, mostly for clocks of Slurm
source tests/e2e/lib/common.sh
source tests/e2e/lib/minislurm.sh
slurm_begin 4

# The time limit: Slurm itself asks, up to a minute early. Files take their time,
# so that there are few steps until then.
endless=(train.epochs=100000 schedule.name=constant train.batch_mode=global train.global_batch=12
    train.batch_per_rank=12 checkpoint.every_epochs=0 data.readers=1)
SLOW_FILES_MATCH=.jp SLOW_FILES_MS=20 LD_PRELOAD=$PWD/build/slow_files.so submit limit --nodes=2-4 \
    --time=1 --signal=B:USR1@50 -- "${endless[@]}"
for ((tries = 0; tries < 600; tries++)); do
    grep -qs "asked to leave" "$SCRATCH/limit.log" && break
    sleep 0.2
done
scontrol update jobid="$job" timelimit=60 # once is enough
wait_for_starts limit "4 4" 150
cat "$SCRATCH/limit.log" > "$out"
expect_text "time limit" some "ended with 75: requeueing"

# Fewer nodes: the requeued job goes on with those that are left.
at=$(field limit step step)
wait_for_step limit $((at + 3))
scontrol update nodename=n3,n4 state=drain reason=test
scancel --batch --signal=USR1 "$job"
wait_for_starts limit "4 4 2" 90
for ((tries = 0; tries < 300; tries++)); do
    (($(events limit resume) < 2)) || break
    sleep 0.1
done
at=$(field limit resume step)
train unbroken 4 "${endless[@]}" "train.max_steps=$at"
"$tools"/make_ckptdiff "$(newest unbroken)" \
    "$SCRATCH/limit/checkpoints/$(basename "$(newest unbroken)")" > "$out" 2>&1 ||
    broken_run "time limit: at step $at the run is not the one without a limit"
at=$(field limit step step)
wait_for_step limit $((at + 3))
expect_field "on two nodes" limit start world 2
scontrol update nodename=n3,n4 state=resume

# A node dies: Slurm takes it out, and the job goes on on others.
at=$(field limit step step)
victim=$(scontrol show hostnames "$(squeue -h -j "$job" -o %N)" | tail -n 1)
daemon=$(cat "$slurm/run/$victim.pid")
mapfile -t victims < <(grep -lzF "SLURMD_NODENAME=$victim" /proc/[0-9]*/environ 2> /dev/null |
    sed -E 's,/proc/([0-9]+)/.*,\1,')
steps=()
for process in "${victims[@]}"; do
    step=$(sed -nE 's/^PPid:[[:space:]]*//p' "/proc/$process/status" 2> /dev/null)
    [[ $(cat "/proc/$step/comm" 2> /dev/null) == slurmstepd ]] && steps+=("$step")
done
kill -9 "$daemon" "${steps[@]}" "${victims[@]}" 2> /dev/null
wait_for_starts limit "4 4 2 3" 120
wait_for_step limit $((at + 3))
scancel "$job"
slurm_end
