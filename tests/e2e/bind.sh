#!/usr/bin/env bash
# bind.sh - device.bind: which CPUs ranks get. This machine's CPUs are told to be two sockets where
# it has two CPUs; larger machines are described to convoy doctor.
source tests/e2e/lib/common.sh

# ---- described machines ----

root=$SCRATCH/root
mkdir -p "$root/proc/self"
echo 'shm /dev/shm tmpfs rw,size=4g 0 0' > "$root/proc/self/mounts"

"$tools"/make_topology 2 1 24 4 0 > "$SCRATCH/p4d.xml"
expect "eight GPUs" 0 "$CONVOY" doctor --topology "$SCRATCH/p4d.xml" --root "$root"
expect_text "two sockets" 1 "CPUs 0-95, NUMA node 0-1"
expect_text "GPU of the second" 1 \
    "GPU 5, 0000:16:00.0: NUMA node 1, nearest adapter mlx5_5"
expect_text "its rank" 1 "rank 5 of 8: CPUs 30-35,78-83, NUMA node 1"
"$tools"/make_topology 2 1 4 0 0 > "$SCRATCH/cpus.xml"
expect "no GPUs" 0 "$CONVOY" doctor --topology "$SCRATCH/cpus.xml" --ranks 2 --root "$root"
expect_text "a socket each" 1 "rank 1 of 2: CPUs 4-7,12-15, NUMA node 1"
"$tools"/make_topology 1 1 4 1 0 > "$SCRATCH/one.xml"
expect "one node" 0 "$CONVOY" doctor --topology "$SCRATCH/one.xml" --root "$root"
expect_text "one node" 1 "ranks are not bound"
head -c 300 "$SCRATCH/one.xml" > "$SCRATCH/cut.xml"
expect "cut file" 65 "$CONVOY" doctor --topology "$SCRATCH/cut.xml"
expect_one_error "cut file" "$SCRATCH/cut.xml"
expect "no file" 74 "$CONVOY" doctor --topology "$SCRATCH/none.xml"
expect_one_error "no file" "$SCRATCH/none.xml: no such file"
HWLOC_SYNTHETIC="numa:2 core:4 pu:1" "$CONVOY" doctor > "$out" 2>&1
expect_text "doctor of another machine" some "HWLOC_FSROOT describes another machine"

# ---- runs ----

make_data "$SCRATCH/data" 4 1
make_config
have_mpi || exit "$failed"
sockets="pack:2 [numa] core:1 pu:1"

train_bound() # RUN BINDING ENVIRONMENT...
{
    settings "$1" train.epochs=1
    timeout 120 env "${@:3}" mpirun -n 2 --bind-to "$2" "$CONVOY" train --verbose "${sets[@]}"
}

expect "another machine" 78 train_bound other none HWLOC_SYNTHETIC="$sockets"
expect_text "another machine" 1 "device.bind: HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT \
describes another machine; unset it, or set device.bind to none"
if [[ $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status) != 0-1 ||
    $(lscpu -p=CORE,SOCKET 2> /dev/null | grep -v '^#' | sort -u | wc -l) != 2 ]]; then
    echo "not tested: binding: wants CPUs 0 and 1 alone, each a core"
    exit "$failed"
fi
expect "as it is" 0 train_bound plain none A=
expect_text "one node" 0 "device.bind"
expect "kept" 0 train_bound kept core A=
expect_text "kept" 1 "ranks keep the CPUs that mpirun, srun or another launcher assigned"
expect_text "kept" 1 "  rank 1: CPUs 1, NUMA node 0"
expect "bound" 0 train_bound bound none HWLOC_THISSYSTEM=1 HWLOC_SYNTHETIC="$sockets"
expect_text "bound" 1 "device.bind: ranks are bound near their GPUs, or to separate CPUs"
expect_text "bound" 1 "  rank 1: CPUs 1, NUMA node 1"
for run in kept bound; do same "weights" plain "$run"; done

# Every thread of a rank, those of MPI too.
export HWLOC_THISSYSTEM=1 HWLOC_SYNTHETIC=$sockets
train_in_background long 2 train.epochs=1000
wait_for_ranks 2
wait_for_step long 3
for rank in "${processes[@]}"; do
    sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$rank/task"/*/status | sort | uniq -c
done > "$SCRATCH/threads"
kill -USR1 "$pid"
wait_to_end 20
awk '$1 >= 5 { cpus = cpus $2 } END { exit NR != 2 || cpus !~ /^(01|10)$/ }' "$SCRATCH/threads" ||
    broken "threads are elsewhere: $(cat "$SCRATCH/threads")"
exit "$failed"
