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

# ---- a dataset's files, and clocks ----

make_data "$SCRATCH/data" 4 1
"$CONVOY" doctor --data "$SCRATCH/data" > "$out" 2>&1
files=$(find "$SCRATCH/data" -name '*.jp*g' | wc -l)
opened="$SCRATCH/data: [1-9][0-9]* files/s opened by 8 threads \($files files of [0-9.]+ KB"
grep -qE "data +$opened" "$out" || broken_run "data: opened"
grep -qE ' [0-9.]+ MB/s read by 8 threads' "$out" || broken_run "data: read"
grep -qE ' [0-9.]+ of [0-9.]+ GB are free' "$out" || broken_run "data: free space"
[[ $("$CONVOY" doctor | grep -c 'files/s') == 0 ]] || broken "reads where nothing was asked for"
# Storage that takes 100 ms to open a file: 8 threads open 80 a second.
LD_PRELOAD=$PWD/$tools/slow_files.so SLOW_FILES_MS=100 SLOW_FILES_MATCH=$SCRATCH/data \
    "$CONVOY" doctor --data "$SCRATCH/data" > "$out" 2>&1
grep 'files/s opened' "$out" |
    awk '$1 != "warn" || $4 > 85 { bad = 1 } END { exit bad || NR != 1 }' ||
    broken_run "data: slow storage"
expect_text "data: slow storage" 1 "convoy pack turns many small files into a few large ones"
expect "no data" 69 "$CONVOY" doctor --data "$SCRATCH/none"
expect_text "no data" 1 "fail  data       $SCRATCH/none: no files found"
if have_mpi; then
    # One of the ranks has a clock that is five seconds ahead.
    cat > "$SCRATCH/clock.c" << 'END'
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    int result = (int)syscall(SYS_clock_gettime, id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += 5;
    return result;
}
END
    gcc -shared -fPIC -o "$SCRATCH/clock.so" "$SCRATCH/clock.c" || broken "clock.so"
    mpirun -n 2 "$CONVOY" doctor --clocks : -n 1 -x LD_PRELOAD="$SCRATCH/clock.so" \
        "$CONVOY" doctor --clocks > "$out" 2>&1
    grep -qE 'ok +clocks +rank 1: clock [0-9]{1,2}[.][0-9] ms (behind|ahead of) that of' "$out" ||
        broken_run "clocks: the same"
    grep -qE 'warn +clocks +rank 2: clock (49|50)[0-9]{2}[.][0-9] ms ahead of that of' "$out" ||
        broken_run "clocks: five seconds"
fi

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
