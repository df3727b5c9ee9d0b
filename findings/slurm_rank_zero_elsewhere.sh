#!/usr/bin/env bash
# Slurm 22.05.8: under srun --distribution=arbitrary rank 0 need not be on the first node of
# SLURM_JOB_NODELIST, from which batch files take the master's address.
#
# A file in SLURM_HOSTFILE says where each rank goes (n2, n1: rank 0 on n2). The list of nodes stays
# sorted, of the job and of the step, and SLURM_NODEID of rank 0 is 1, not 0: programs that wait for
# the master at `scontrol show hostnames | head -n 1` wait on n1. srun -w n2,n1 does not turn the
# order: rank 0 is on n1.
source "$(dirname "$0")/common.sh"
source "$here/slurm.sh"

cat > "$STATED" << 'END'
job: n[1-2], its first name: n1
srun -w n2,n1: rank 0 is on n1, SLURM_NODEID 0, step n[1-2]
arbitrary, n2 n1: rank 0 is on n2, SLURM_NODEID 1, step n[1-2]
END
submit -N 2 --ntasks-per-node=1 > "$SEEN" << 'END'
#!/bin/bash
echo "job: $SLURM_JOB_NODELIST, its first name: $(scontrol show hostnames | head -n 1)"
rank='[ "$SLURM_PROCID" != 0 ] || \
    echo "rank 0 is on $SLURMD_NODENAME, SLURM_NODEID $SLURM_NODEID, step $SLURM_STEP_NODELIST"'
echo "srun -w n2,n1: $(srun -n 2 -w n2,n1 sh -c "$rank")"
printf 'n2\nn1\n' > hosts
export SLURM_HOSTFILE=$PWD/hosts
echo "arbitrary, n2 n1: $(srun -n 2 --distribution=arbitrary sh -c "$rank")"
END
compare
