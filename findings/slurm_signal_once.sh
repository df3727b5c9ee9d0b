#!/usr/bin/env bash
# Slurm 22.05.8: a job whose time limit is raised after it has had the warning of --signal=B:USR1@45
# gets no second warning before the new limit.
#
# One minute, the warning 45 s before its end; then `scontrol update TimeLimit=2`. The job is told
# once, and ends with TERM two minutes after its start or a little later. A program that saves at
# the warning and goes on, since there is time now, loses what it does after that. Takes three
# minutes.
source "$(dirname "$0")/common.sh"
source "$here/slurm.sh"

cat > "$STATED" << 'END'
warnings: 1
the limit is raised: 2 minutes
ended by TERM, later than 100 s after the start: yes
END
submit --time=1 --signal=B:USR1@45 > log << 'END'
#!/bin/bash
raise()
{
    echo warning
    scontrol update jobid="$SLURM_JOB_ID" TimeLimit=2
    scontrol show job "$SLURM_JOB_ID" | grep -oE 'TimeLimit=[0-9:]+'
}
trap raise USR1
trap '((SECONDS > 100)) && echo late; exit' TERM
while ((SECONDS < 240)); do sleep 1; done
END
{
    echo "warnings: $(grep -c warning log)"
    grep -q TimeLimit=00:02:00 log && echo "the limit is raised: 2 minutes"
    grep -q late log && echo "ended by TERM, later than 100 s after the start: yes"
} > "$SEEN"
compare
