#!/usr/bin/env bash
# Slurm 22.05.8: a new job that a requeued job submits has SLURM_RESTART_COUNT 1 in its first start.
#
# Slurm sets the variable only from the second start on, and sbatch passes on the environment, the
# other job's variables too. So "SLURM_RESTART_COUNT is set: go on from the checkpoint" is wrong in
# chains of jobs. `scontrol show job` has the right number (Restarts=0). A job submitted from an
# array's task has that one's SLURM_ARRAY_TASK_ID in the same way.
source "$(dirname "$0")/common.sh"
source "$here/slurm.sh"

cat > "$STATED" << 'END'
parent: SLURM_RESTART_COUNT not set
parent: SLURM_RESTART_COUNT 1
its child: SLURM_RESTART_COUNT 1, SLURM_ARRAY_TASK_ID not set, scontrol: Restarts=0
child of array task 7: SLURM_RESTART_COUNT not set, SLURM_ARRAY_TASK_ID 7, scontrol: Restarts=0
END
cat > child.sh << 'END'
#!/bin/bash
echo "SLURM_RESTART_COUNT ${SLURM_RESTART_COUNT-not set}," \
    "SLURM_ARRAY_TASK_ID ${SLURM_ARRAY_TASK_ID-not set}," \
    "scontrol: $(scontrol show job "$SLURM_JOB_ID" | grep -oE 'Restarts=[0-9]+')"
END
submit -N 1 --requeue > "$SEEN" << 'END'
#!/bin/bash
echo "parent: SLURM_RESTART_COUNT ${SLURM_RESTART_COUNT-not set}"
if [[ -z ${SLURM_RESTART_COUNT-} ]]; then
    scontrol requeue "$SLURM_JOB_ID"
    sleep 60
else
    sbatch -o child.log child.sh > /dev/null
fi
END
# wait_for FILE
wait_for() { for ((i = 0; i < 300; i++)); do [[ ! -s $1 ]] || return 0; sleep 0.2; done; }
wait_for child.log
submit -N 1 --array=7 > /dev/null << 'END'
#!/bin/bash
sbatch -o of_array.log child.sh > /dev/null
END
wait_for of_array.log
sed -i '/slurmstepd/d' "$SEEN"
{
    echo "its child: $(cat child.log)"
    echo "child of array task 7: $(cat of_array.log)"
} >> "$SEEN"
compare
