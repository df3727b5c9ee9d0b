#!/usr/bin/env bash
# slurm_ends.sh - which ends of a job of scripts/slurm/train.sbatch a real Slurm follows with
# another start: without preemption configured and with it, stopped by convoy stop, cancelled, one
# task of an array, asked to leave by a time limit that is hardly longer than the warning.
source tests/e2e/lib/common.sh
source tests/e2e/lib/minislurm.sh
slurm_begin 8

declare -A jobs
# begin RUN LAUNCHER SBATCH_OPTION... -- KEY=VALUE... - on a node of its own; its id is jobs[RUN].
begin()
{
    local name=$1
    LAUNCHER=$2 submit "$1" --nodes=1 "${@:3}"
    jobs[$name]=$job
}

# expect_end RUN STATE STARTS TEXT - the job comes to that state after so many starts, and its log
# says so.
expect_end()
{
    local id=${jobs[$1]}
    slurm_wait "$id" "$2" 40 || broken "$1: the job is $(slurm_state "$id"), expected $2"
    [[ $(starts "$1") == "$3" ]] || broken "$1: started on '$(starts "$1")' nodes, expected '$3'"
    cat "$SCRATCH/$1.log" > "$out"
    expect_text "$1" 1 "$4"
}

# stops_and_cancels RUN - one run that convoy stop ends, two jobs that scancel ends, by each
# launcher.
endless=(train.epochs=100000 schedule.name=constant data.readers=1)
stops_and_cancels()
{
    local name
    begin "$1-stop" srun -- "${endless[@]}"
    begin "$1-srun" srun -- "${endless[@]}"
    begin "$1-mpirun" mpirun -- "${endless[@]}"
    for name in stop srun mpirun; do wait_for_step "$1-$name" 3; done
    "$CONVOY" stop "$SCRATCH/$1-stop" > "$out" 2>&1 || broken_run "convoy stop"
    scancel "${jobs[$1-srun]}" "${jobs[$1-mpirun]}"
}

expect_stopped_and_cancelled()
{
    expect_end "$1-stop" FAILED 1 "ended with 75; not requeued: stopped as somebody asked"
    expect_end "$1-srun" CANCELLED 1 "not requeued: Slurm ends the job"
    expect_end "$1-mpirun" CANCELLED 1 "not requeued"
}

export SLOW_FILES_MATCH=.jp SLOW_FILES_MS=10 LD_PRELOAD=$PWD/build/slow_files.so
slurm_preempts off
# Slurm warns within half a minute or so of the start, since the header wants five minutes.
train index 1 train.max_steps=1 # the others find it there
SLOW_FILES_MATCH=.index SLOW_FILES_MS=60000 begin early srun --time=5 -- "${endless[@]}"
begin short srun --time=5 -- "${endless[@]}"
# A task ends by itself, the one that has the array's id is asked to leave, one is left in peace.
settings array-%a "${endless[@]}" train.max_steps=%a
array=$(CONVOY=$CONVOY RANKS=1 LAUNCHER=srun sbatch --parsable --overcommit --array=3,900-901 \
    --nodes=1 --output="$SCRATCH/array-%a.log" scripts/slurm/train.sbatch "${sets[@]}")
stops_and_cancels none
slurm_wait "${array}_3" COMPLETED 60 || broken "array: task 3 is $(slurm_state "${array}_3")"
for task in 900 901; do wait_for_step array-$task 3; done
for task in 900 901; do
    [[ $(scontrol show job "${array}_$task") != "JobId=$array "* ]] || asked=$task
done
scancel --batch --signal=USR1 "${array}_${asked:-900}"
expect_stopped_and_cancelled none
job=${array}_$asked wait_for_starts "array-$asked" "1 1" 60
other=$((1801 - asked))
[[ $(starts array-3) == 1 && $(slurm_state "${array}_3") == COMPLETED ]] ||
    broken "array: the task that was done started on '$(starts array-3)' nodes"
[[ $(starts "array-$other") == 1 && $(slurm_state "${array}_$other") == RUNNING ]] ||
    broken "array: task $other started on '$(starts "array-$other")' nodes," \
        "it is $(slurm_state "${array}_$other")"
scancel "$array"

slurm_preempts on
begin makes-room srun --partition=cancels -- "${endless[@]}"
stops_and_cancels some
wait_for_step makes-room 3
# Where a partition's preempted jobs are cancelled, the script's own requeue keeps this one.
node=$(squeue -h -j "${jobs[makes-room]}" -o %N)
urgent=$(sbatch --parsable --partition=urgent --nodelist="$node" --exclusive \
    --output="$SCRATCH/urgent.log" --wrap 'sleep 1')
expect_stopped_and_cancelled some
slurm_wait "$urgent" COMPLETED 40 || broken "the urgent job is $(slurm_state "$urgent")"
job=${jobs[makes-room]} wait_for_starts makes-room "1 1" 60
scancel "${jobs[makes-room]}"

expect_end early FAILED 1 "not requeued: asked to leave before anything new was saved"
job=${jobs[short]} wait_for_starts short "1 1" 60
cat "$SCRATCH/short.log" > "$out"
expect_text "a limit little longer than the warning" some "s before the time limit: a longer"
scancel "${jobs[short]}"
slurm_end
