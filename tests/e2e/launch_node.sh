#!/usr/bin/env bash
# launch_node.sh - convoy launch -n: ranks of this host alone, without a word for mpirun.
# alone: it measures how fast a start follows
source tests/e2e/lib/common.sh
source tests/e2e/lib/hosts.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
# As a user's shell is, who may be root and have fewer cores than ranks.
unset "${!OMPI_@}" "${!PRTE_@}"
make_data "$SCRATCH/data" 12 1
make_config
mkdir "$SCRATCH/hosts" # none: expect_nothing_runs looks there
cp "$CONVOY" "$SCRATCH/convoy" && CONVOY=$SCRATCH/convoy
endless=(train.epochs=100000 schedule.name=constant train.batch_mode=global train.global_batch=12
    train.batch_per_rank=3 checkpoint.every_steps=10 checkpoint.every_epochs=0)

# node RUN OPTION... -- KEY=VALUE... - sets the array `launching`.
node()
{
    local name=$1
    shift
    launching=("$CONVOY" launch)
    while [[ $1 != -- ]]; do
        launching+=("$1")
        shift
    done
    settings "$name" "${@:2}"
    launching+=(-- train "${sets[@]}")
}

# ranks - the processes of the run.
ranks()
{
    local process
    grep -lzxF train /proc/[0-9]*/cmdline 2> /dev/null | sed -E 's,/proc/([0-9]+)/.*,\1,' |
        while read -r process; do
            [[ $(tr '\0' ' ' < "/proc/$process/cmdline") == "$CONVOY train "* ]] && echo "$process"
        done 2> /dev/null
}

# Four ranks, whatever the cores. One is killed: on from the checkpoint, nothing is missing. Asked
# to stop: a checkpoint, and nothing is left.
node main -n 4 -- "${endless[@]}"
"${launching[@]}" > "$SCRATCH/main.out" 2>&1 &
pid=$!
wait_for_starts main 4
wait_for_step main 13
"$CONVOY" launch --status "$SCRATCH/main" > "$out" 2>&1 || broken_run "status"
expect_text "status" 1 "4 ranks on localhost:4"
mapfile -t processes < <(ranks)
((${#processes[@]} == 4)) || broken "main: ${#processes[@]} ranks run, expected 4"
kill -9 "${processes[1]}"
killed=${EPOCHREALTIME/,/.}
wait_for_starts main "4 4"
awk -v killed="$killed" -v run="$(launch_events main run time)" \
    'BEGIN { split(run, runs, " "); exit !(runs[2] - killed < 1.5) }' ||
    broken "main: killed at $killed, started at $(launch_events main run time)"
wait_for_progress main 5
expect_little_lost main 10
kill -TERM "$pid"
wait_to_end 60
((code == 75)) || broken "main: exit code $code after TERM, expected 75"
expect_nothing_runs main
[[ $(launch_events main exit reason) == "failed asked to stop" ]] ||
    broken "main: ends are '$(launch_events main exit reason)'"
[[ $(launch_events main exit code) == "137 75" ]] ||
    broken "main: exit codes are '$(launch_events main exit code)'"
last=$(field main step step)
node main -n 2 --prefix -- "${endless[@]}" "train.max_steps=$((last + 5))" train.batch_per_rank=6
expect "on two ranks" 0 timeout 60 "${launching[@]}"
sound_metrics main
[[ $(losses main | awk '$1 != NR { print "no record of step " NR; exit }') == "" ]] ||
    broken "main: steps are missing"
[[ $(field main start world) == 2 ]] || broken "main: goes on with $(field main start world) ranks"

# A rank hangs: each of the others says what it waits for, though mpirun ends all with the first.
# Rank 2 is late: it does not run while rank 0 comes to the end of its patience.
node hang -n 3 --max-restarts 0 -- "${endless[@]}" train.batch_per_rank=4 comm.timeout_s=3
"${launching[@]}" > "$SCRATCH/hang.out" 2>&1 &
pid=$!
wait_for_step hang 3
for process in $(ranks); do
    rank=$(tr '\0' '\n' < "/proc/$process/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
    processes[rank]=$process
done
kill -STOP "${processes[1]}"
sleep 2.8
kill -STOP "${processes[2]}"
for ((tries = 0; tries < 100; tries++)); do
    [[ -s $SCRATCH/hang/hang-0.json ]] && break
    sleep 0.02
done
kill -CONT "${processes[2]}"
wait_to_end 60
((code == 76)) || broken "hang: exit code $code, expected 76"
[[ -f $SCRATCH/hang/hang-0.json && -f $SCRATCH/hang/hang-2.json ]] ||
    broken "hang: reports: $(cd "$SCRATCH/hang" && echo hang-*)"
expect_nothing_runs hang

# Whose line it is; that of a library too (here of the loader, since rank 0 speaks for all).
node prefix -n 2 --prefix --mpirun-args "-x LD_DEBUG=statistics" -- train.max_steps=2
expect "prefix" 0 timeout 60 "${launching[@]}"
for rank in 0 1; do
    grep -q "^\[1,$rank\]<stderr>:.*runtime linker statistics" "$out" ||
        broken_run "prefix: no line of rank $rank bears its name"
done
grep -q "^\[1,0\]<stdout>: *done; everything is in" "$out" ||
    broken_run "prefix: the last lines bear none"

# Without a GPU: one rank, and that is said.
node auto -n auto -- train.max_steps=2
expect "auto" 0 timeout 60 "${launching[@]}"
expect_text "auto" 1 "-n auto: one rank with all cores: device.backend is cpu"
[[ $(launch_events auto run ranks) == 1 ]] ||
    broken "auto: $(launch_events auto run ranks) ranks"

# What cannot be is said at once, in one line.
# wrong WHAT TEXT OPTION... -- KEY=VALUE...
wrong()
{
    node wrong "${@:3}"
    expect "$1" 64 timeout 20 "${launching[@]}"
    expect_one_error "$1" "$2"
}
wrong "no ranks" "-n 0: must be a whole number from 1" -n 0 --
wrong "a word" "-n some: must be a whole number from 1" -n some --
wrong "hosts too" "give either -n (ranks on this host) or --hosts-script" \
    -n 2 --hosts-script "echo a" --
wrong "slots too" "--slots requires --hosts-script" -n 2 --slots 2 --
wrong "neither" "missing option -n or --hosts-script" --
wrong "an odd batch" "train.global_batch: 12 is not divisible by 5 ranks (-n)" -n 5 -- \
    "${endless[@]}"
# mpirun takes an option once: the user's.
node own -n 2 --mpirun-args "--mca odls_base_sigkill_timeout 1 --mca plm ^slurm \
--bind-to core:overload-allowed --map-by slot" -- train.max_steps=2
[[ $(nproc) -lt 2 ]] || expect "own binding" 0 timeout 60 "${launching[@]}"
exit "$failed"
