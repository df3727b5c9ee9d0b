#!/usr/bin/env bash
# train_sbatch.sh - scripts/slurm/train.sbatch with stand-ins for Slurm, mpirun and nvidia-smi:
# ranks from GPUs, and after which ends a job is requeued. (A real Slurm: slurm_ends.sh, slurm.sh,
# slurm_nodes.sh.)
source tests/e2e/lib/common.sh
mkdir "$SCRATCH/bin"
cat > "$SCRATCH/bin/mpirun" << 'END'
#!/bin/bash
trap '' USR1
echo "started: $*"
[[ -z ${STUB_SIGNAL:-} ]] || { kill -"$STUB_SIGNAL" $PPID && sleep 0.1; }
[[ -z ${STUB_SAYS:-} ]] || echo "${STUB_SAYS//_/ }"
exit "${STUB_CODE:-0}"
END
# A real requeue would end the script.
cat > "$SCRATCH/bin/scontrol" << 'END'
#!/bin/bash
[[ $1 == show ]] || { echo "scontrol $*" && exit 1; }
[[ ${SLURM_ARRAY_TASK_ID:+$3} != 7 || ${STUB_PLAIN:-} ]] || # asked for all of the array
    echo "JobId=6 OverSubscribe=YES Restarts=60 PreemptTime=2026-11-28T00:00:00"
sleep "${STUB_SECONDS:-0}"
echo "JobId=7 ${STUB_PLAIN:+JobName=x Restarts=1} JobState=${STUB_STATE:-RUNNING}" \
    "Reason=${STUB_REASON:-None} Dependency=(null)"
echo "   StartTime=2026-11-28T00:00:00 EndTime=${STUB_END:-Unknown} Deadline=N/A"
[[ -z ${STUB_PREEMPTED:-} ]] ||
    echo "   PreemptEligibleTime=2026-11-28T00:00:00 PreemptTime=$STUB_PREEMPTED"
echo "   OverSubscribe=${STUB_SHARED:-NO}"
END
printf '#!/bin/sh\nfor i in 0 1; do echo "GPU $i: NVIDIA H100 (UUID: GPU-$i)"; done\n' \
    > "$SCRATCH/bin/nvidia-smi"
chmod +x "$SCRATCH"/bin/*

# job VARIABLE=VALUE... - the script in such a job of three nodes.
job()
{
    env -u SLURM_GPUS_ON_NODE -u RANKS PATH="$SCRATCH/bin:/usr/bin:/bin" CONVOY="$CONVOY" \
        LAUNCHER=mpirun SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=3 \
        SLURM_JOB_NODELIST='n[1-3]' "$@" bash -c 'echo $$ > "$0"; exec bash "$@"' \
        "$SCRATCH/pid" scripts/slurm/train.sbatch config.yaml run.dir=x-%a
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

# Which ends are followed by another start: the launcher's code, whether there is one, and what else
# there was. Without STUB_PREEMPTED Slurm has no PreemptType, and prints no such field.
date=STUB_PREEMPTED=2026-11-28T01:02:03 cancelled=STUB_STATE=COMPLETING limit=STUB_REASON=TimeLimit
saved=STUB_SAYS=step_9:_saved_x.safetensors none=STUB_SAYS=stopped_on_request_before
json='STUB_SAYS={"event":"checkpoint"}'
labelled=STUB_SAYS=0:_step_9:_saved_x_0:_stopped_on_request
tagged='STUB_SAYS=[1,0]<stdout>:step_9:_saved_x_stopped_on_request'
while read -r code requeues set; do
    read -r -a set <<< "$set"
    expect "end with $code ${set[*]}" "$code" job STUB_CODE="$code" "${set[@]}"
    expect_text "end with $code ${set[*]}" "$requeues" "scontrol requeue 7"
done << END
0 0
64 0
65 0
71 0 $date
78 0
76 1
137 1
76 0 $cancelled
75 0
75 0 STUB_PREEMPTED=None
75 0 STUB_PREEMPTED=None STUB_SIGNAL=TERM
75 1 $date
75 1 $date STUB_SIGNAL=TERM
75 1 $date STUB_SIGNAL=USR1 $none
75 0 $cancelled
75 0 STUB_SIGNAL=TERM
143 0 STUB_SIGNAL=TERM
143 1
143 1 $date STUB_SIGNAL=TERM
75 1 STUB_SIGNAL=USR1
75 1 STUB_SIGNAL=USR1 $saved
75 1 STUB_SIGNAL=USR1 $json
75 1 STUB_SIGNAL=USR1 $labelled
75 1 STUB_SIGNAL=USR1 $tagged
75 0 STUB_SIGNAL=USR1 $none
138 0 STUB_SIGNAL=USR1
76 1 STUB_SIGNAL=USR1
75 0 STUB_SIGNAL=USR1 $saved $cancelled
75 1 STUB_SIGNAL=USR1 $saved $cancelled $limit
75 0 STUB_SIGNAL=USR1 $none $cancelled $limit
75 0 SLURM_RESTART_COUNT=50 STUB_SIGNAL=USR1
END
# One task of an array is requeued, not the array, whose id one of the tasks has; nor is it looked
# at. %a is the task's number.
expect "a task of an array" 76 job STUB_CODE=76 SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3
expect_text "a task of an array" 1 "scontrol requeue 7_3"
expect_text "a task of an array" 1 "train config.yaml run.dir=x-3"
expect "a stopped task of an array" 75 job STUB_CODE=75 SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3
expect_text "a stopped task of an array" 0 "scontrol requeue"
expect "submitted by others" 76 job STUB_CODE=76 STUB_PLAIN=1 SLURM_ARRAY_JOB_ID=9 \
    SLURM_ARRAY_TASK_ID=3 SLURM_HET_SIZE=2 SLURM_RESTART_COUNT=60
expect_text "submitted by others" 1 "job 7, start 2"
expect_text "submitted by others" 1 "train config.yaml run.dir=x-%a"
expect_text "submitted by others" 1 "scontrol requeue 7"
expect "a job of several components" 64 job SLURM_HET_SIZE=2
expect_text "a job of several components" 0 "started"

# The launcher is gone while the trap still talks to Slurm: its code counts, not the signal's.
expect "slow Slurm" 75 job STUB_SIGNAL=USR1 STUB_CODE=75 STUB_SECONDS=0.3 $saved
expect_text "slow Slurm" 1 "ended with 75: requeueing"
# Where more of the time limit is left than was used, the two do not fit each other.
for minutes in 0 60 6000; do
    end=$(date -d "$minutes minutes" +%FT%T)
    expect "$minutes minutes left" 75 job STUB_SIGNAL=USR1 STUB_CODE=75 "STUB_END=$end"
    expect_text "$minutes minutes left" $((minutes == 60)) "s before the time limit: a longer"
done
# Asked before there are ranks: none are started.
printf '#!/bin/sh\nkill -USR1 "$(cat "%s")"\necho 0\n' "$SCRATCH/pid" > "$SCRATCH/bin/wc"
chmod +x "$SCRATCH/bin/wc"
expect "asked at once" 138 job
expect_text "asked at once" 0 "started"
expect_text "asked at once" 1 "not requeued: asked to leave before anything new"
exit "$failed"
