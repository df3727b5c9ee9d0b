#!/usr/bin/env bash
# allreduce_jobs.sh - the all-reduce as a job of Slurm and of Kubernetes, with a stand-in for mpirun
# that says what NCCL would: EFA on all ranks, on some, on none. (The table itself:
# bench_allreduce.sh.)
source tests/e2e/lib/common.sh
mkdir "$SCRATCH/bin"
# As many ranks say EFA as STUB_EFA, the others sockets; NCCL's two ways of writing it.
cat > "$SCRATCH/bin/mpirun" << 'END'
#!/bin/bash
echo "started: $*"
for ((i = 0; i < 16; i++)); do
    what='NET/OFI Selected Provider is efa (found 4 nics)'
    ((i % 2)) || what='NET/OFI Selected provider is efa, fabric is efa (found 4 nics)'
    ((i < STUB_EFA)) || what='Using network Socket'
    echo "node$((i / 8)):$((100 + i)):$((200 + i)) [0] NCCL INFO $what"
    echo "node$((i / 8)):$((100 + i)):$((300 + i)) [0] NCCL INFO $what"
done
echo '# Avg bus bandwidth    : 42'
exit "${STUB_CODE:-0}"
END
chmod +x "$SCRATCH/bin/mpirun"

slurm_job()
{
    env -C "$SCRATCH" PATH="$SCRATCH/bin:/usr/bin:/bin" CONVOY="$CONVOY" LAUNCHER=mpirun RANKS=8 \
        SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 "$@" \
        bash "$PWD/scripts/slurm/allreduce.sbatch" "${options[@]}"
}
# The launcher's command as Kubernetes would start it, and its variables.
kubernetes_job()
{
    local file=scripts/k8s/allreduce.yaml
    sed -n '/^ *- |$/,/^ *env:$/p' "$file" | sed '1d; $d; s/^                  //' |
        IMAGE=x envsubst > "$SCRATCH/launcher.sh"
    env PATH="$SCRATCH/bin:/usr/bin:/bin" RANKS=16 "$@" bash -c "$(cat "$SCRATCH/launcher.sh")"
}

options=()
expect "Slurm, EFA" 0 slurm_job PROVIDER=efa STUB_EFA=16
expect_text "Slurm, EFA" 1 "NCCL has chosen efa on 16 of 16 ranks"
expect_text "Slurm, EFA" 1 "--map-by ppr:8:node --bind-to none $CONVOY bench allreduce -b 8 -e 1G"
expect_text "Slurm, EFA: NCCL's log" 0 "NCCL INFO"
grep -q "NCCL INFO" "$SCRATCH/allreduce-7.out" || broken "Slurm: NCCL's log is not kept"
options=(-e 64K)
expect "Slurm, a rank without" 69 slurm_job PROVIDER=efa STUB_EFA=15
expect_text "Slurm, a rank without" 1 "efa on 15 of 16 ranks"
expect_text "Slurm, options" 1 "bench allreduce -e 64K"
expect "Slurm, sockets are fine" 0 slurm_job PROVIDER= STUB_EFA=0
expect "Slurm, it failed" 3 slurm_job PROVIDER=efa STUB_EFA=16 STUB_CODE=3
expect "no program" 78 slurm_job CONVOY=/nowhere PROVIDER=efa

if command -v envsubst > /dev/null; then
    expect "Kubernetes, EFA" 0 kubernetes_job STUB_EFA=16
    expect_text "Kubernetes, EFA" 1 "allreduce: NCCL has chosen EFA on all ranks"
    expect_text "Kubernetes, EFA" 1 "convoy bench allreduce -b 8"
    expect "Kubernetes, none" 69 kubernetes_job STUB_EFA=0
    expect "Kubernetes, a rank without" 69 kubernetes_job STUB_EFA=15
    expect "Kubernetes, it failed" 3 kubernetes_job STUB_EFA=16 STUB_CODE=3
else
    echo "not tested: the job of Kubernetes: no envsubst (package gettext-base)"
fi
exit "$failed"
