# shellcheck shell=bash
# slurm.sh - a Slurm of two nodes on this machine for the scripts named slurm_*; sourced after
# common.sh. What starts it is shared with the tests.
debian slurmctld=22.05.8-4+deb12u3 slurmd=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3
# shellcheck source=../tests/e2e/lib/minislurm.sh disable=SC2154 # common.sh has it
source "$here/../tests/e2e/lib/minislurm.sh"
why=$(slurm_missing)
[[ -z $why ]] || cannot "$why"
slurm_unshare=()
((EUID == 0)) || slurm_unshare=(-U --map-current-user --keep-caps)
trap 'slurm_down; sleep 1; rm -rf "$SCRATCH"' EXIT
slurm_up "$SCRATCH/s" 2 || cannot "Slurm does not come up"

# submit OPTION... - runs a batch job, which standard input holds, and prints its output
submit()
{
    cat > job.sh
    rm -f job.log
    sbatch -W -o job.log --open-mode=append "$@" job.sh > /dev/null
    cat job.log
}
