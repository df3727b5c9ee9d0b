#!/usr/bin/env bash
# doctor.sh - convoy doctor on this host, with made-up GPUs, and on a host described by files:
# report and exit codes.
source tests/e2e/lib/common.sh
fake=$PWD/$tools/fake_nvml

"$CONVOY" doctor > "$out" 2>&1
code=$?
failures=$(sed -nE 's/^[0-9]+ ok, [0-9]+ warnings, ([0-9]+) failures$/\1/p' "$out")
[[ -n $failures ]] || broken_run "no sum at the end"
((code == (failures ? 69 : 0))) || broken_run "exit code $code with $failures failures"
for check in cpus limits memory shm network fabric gpus energy variables libraries; do
    grep -qE "^(ok|warn|fail) +$check " "$out" || broken_run "no finding of $check"
done

expect "three GPUs" 69 env LD_LIBRARY_PATH="$fake" "$CONVOY" doctor --gpus 3
expect_one_error "three GPUs" "2 GPUs, 3 expected"
env LD_LIBRARY_PATH="$fake" OMP_NUM_THREADS=3 "$CONVOY" doctor --json > "$out" 2> /dev/null
expect_text "json" 1 '"check":"gpus","verdict":"warn","text":"GPU 1: 88 degrees Celsius"'
expect_text "json" 1 'OMP_NUM_THREADS=3'

# A host without warnings: 0; one with: 0, or 69 if they count.
mkdir -p "$SCRATCH"/root/{proc/self,sys/devices/system/cpu}
echo 0-3 > "$SCRATCH/root/sys/devices/system/cpu/online"
printf 'Cpus_allowed_list:\t0-3\n' > "$SCRATCH/root/proc/self/status"
echo 'shm /dev/shm tmpfs rw,size=4g 0 0' > "$SCRATCH/root/proc/self/mounts"
expect "good host" 0 "$CONVOY" doctor --strict --root "$SCRATCH/root"
printf 'NCCL_PROTO=LL\0' > "$SCRATCH/root/proc/self/environ"
expect "warnings" 0 "$CONVOY" doctor --root "$SCRATCH/root"
expect "warnings count" 69 "$CONVOY" doctor --strict --root "$SCRATCH/root"
expect_one_error "warnings count" "NCCL_PROTO=LL"
expect "no number" 64 "$CONVOY" doctor --gpus many
exit "$failed"
