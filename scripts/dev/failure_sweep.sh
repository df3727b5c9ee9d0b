#!/usr/bin/env bash
# failure_sweep.sh [--moments N] [--seed N] [--markdown] [KIND...] - breaks a run of two ranks at N
# random moments (20) in each of these ways, and looks whether it ends within its budget, leaves no
# process, keeps a state that can be used, and goes on from the newest good checkpoint:
#
#   kill_rank    kill -9 of one rank
#   stop_rank    SIGSTOP of one rank, for good
#   kill_mpirun  kill -9 of mpirun
#   full_disk    no room left in the run folder's file system
#   remove_data  the training set disappears
#   corrupt      kill -9, then the newest checkpoint loses its end or has a bit flipped
#
# Needs ./convoy and build/make_*: make all tools. full_disk needs to mount a small file system: as
# root, or in a user namespace, which this script then enters; where neither is allowed it says so.
# The last line is "N passed, N failed, N skipped": one test a moment.
cd "$(dirname "$0")/../.." || exit 1
shopt -s nullglob
arguments=("$@") moments=20 seed=1 markdown=0 kinds=()
while (($#)); do
    case $1 in
    --moments) moments=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    --markdown) markdown=1 ;;
    -*)
        echo "usage: failure_sweep.sh [--moments N] [--seed N] [--markdown] [KIND...]" >&2 &&
            exit 64
        ;;
    *) kinds+=("$1") ;;
    esac
    shift
done
((${#kinds[@]})) || kinds=(kill_rank stop_rank kill_mpirun full_disk remove_data corrupt)
if [[ " ${kinds[*]} " == *" full_disk "* && -z ${SWEEP_INSIDE:-} ]] && ((EUID != 0)) &&
    unshare -Urm true 2> /dev/null
then
    SWEEP_INSIDE=1 exec unshare -Urm scripts/dev/failure_sweep.sh "${arguments[@]}"
fi
own_scratch=${SCRATCH:-}
export SCRATCH=${SCRATCH:-$(mktemp -d)} CONVOY=${CONVOY:-$PWD/convoy}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    PRTE_MCA_hwloc_default_binding_policy=none
source tests/e2e/lib/common.sh
RANDOM=$seed
ranks=2
timeout_s=4  # comm.timeout_s: when a silent rank counts as lost
# From the failure to the end of mpirun: the timeout, a checkpoint, and mpirun's own patience, on a
# machine that does other things too.
budget_s=20
# Of small files the loader would read hundreds of epochs ahead, and not miss a folder that is gone.
long=(train.epochs=100000 schedule.name=constant checkpoint.every_steps=5 checkpoint.every_epochs=0
    checkpoint.keep=3 "comm.timeout_s=$timeout_s"
    data.read_ahead_mb=0.001)
passed=0 failures=0

# ---- one moment ----

# random MAX - seconds below MAX, with milliseconds.
random()
{
    awk -v r="$RANDOM" -v max="$1" 'BEGIN { printf "%.3f", r / 32768 * max }'
}

# good_step RUN - the step of the newest checkpoint that can be read; -1 if there is none.
good_step()
{
    local file best=-1
    for file in "$SCRATCH/$1"/checkpoints/step-*.safetensors; do
        "$CONVOY" inspect checkpoint "$file" > "$SCRATCH/inspect" 2>&1 || continue
        file=${file##*/step-}
        best=$((10#${file%.safetensors}))
    done
    echo "$best"
}

# Each way to break a run: what it does to the run that is going on; what may come of it (exit codes
# of mpirun); what it takes back afterwards.
do_kill_rank() { kill -9 "${processes[RANDOM % ranks]}"; }
do_stop_rank() { kill -STOP "${processes[RANDOM % ranks]}"; }
do_kill_mpirun() { kill -9 "$pid"; }
do_full_disk() { dd if=/dev/zero of="$SCRATCH/full_disk/filler" bs=64k 2> "$SCRATCH/dd"; }
undo_full_disk() { rm -f "$SCRATCH/full_disk/filler"; }
do_remove_data() { rm -r "$SCRATCH/data/train"; }
undo_remove_data() { cp -r "$SCRATCH/data/copy" "$SCRATCH/data/train"; }
do_corrupt() { kill -9 "${processes[RANDOM % ranks]}"; }
undo_corrupt()
{
    local file size
    file=$(newest corrupt)
    [[ -n $file && -n $(good_file_before "$file") ]] || return
    size=$(stat -c %s "$file")
    if ((RANDOM % 2)); then
        truncate -s $((RANDOM * size / 32768)) "$file"
    else
        flip_byte "$file" $((RANDOM * size / 32768))
    fi
}
declare -A codes=([kill_rank]="137" [stop_rank]="76" [kill_mpirun]="137" [full_disk]="74"
    [remove_data]="65" [corrupt]="137")

# good_file_before FILE - another checkpoint to fall back to; without one there is nothing to test.
good_file_before()
{
    find "$(dirname "$1")" -name 'step-*.safetensors' ! -name "$(basename "$1")" | head -n 1
}

# Sets why, empty if all held; ended_s, from the failure to the end of mpirun; lost, steps behind
# the newest good checkpoint.
moment()
{
    local kind=$1 before start victims good last resumed
    why=""
    before=$(field "$kind" step step)
    train_in_background "$kind" "$ranks" "${long[@]}"
    wait_for_ranks "$ranks"
    wait_for_step "$kind" $((before + 2 + RANDOM % 8))
    kill -0 "$pid" 2> /dev/null || why="ended by itself before anything was broken"
    resumed=$(field "$kind" resume step)
    ((good_at_end < 0 || resumed == good_at_end)) ||
        why="went on from step $resumed, the newest good checkpoint was that of step $good_at_end"
    sleep "$(random 0.5)"
    victims=("${processes[@]}")
    start=$(date +%s.%N)
    "do_$kind"
    wait_to_end "$budget_s"
    ended_s=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    [[ " ${codes[$kind]} " == *" $code "* ]] ||
        why=${why:-"mpirun ended with $code, expected ${codes[$kind]}"}
    awk -v s="$ended_s" -v most="$budget_s" 'BEGIN { exit !(s < most) }' ||
        why=${why:-"took $ended_s s"}
    failed=0
    expect_gone "$kind" "${victims[@]}" > "$SCRATCH/gone"
    ((failed == 0)) || why=${why:-"$(cat "$SCRATCH/gone")"}
    if declare -F "undo_$kind" > /dev/null; then "undo_$kind"; fi
    last=$(field "$kind" step step)
    good=$(good_step "$kind")
    ((good >= 0)) || why=${why:-"no checkpoint can be used"}
    lost=$((last - good))
    good_at_end=$good
}

# ---- a kind ----

# A small file system for the run that is to find its disk full. False where none can be mounted.
prepare_full_disk()
{
    mkdir -p "$SCRATCH/full_disk"
    mount -t tmpfs -o size=24m convoy "$SCRATCH/full_disk" 2> "$SCRATCH/mount"
}

sweep()
{
    local kind=$1 i worst_s=0 worst_lost=0 good=0
    good_at_end=-1
    if [[ $kind == full_disk ]] && ! prepare_full_disk; then
        echo "not tested: $kind: cannot mount a small file system here:" \
            "$(tail -n 1 "$SCRATCH/mount")"
        return
    fi
    train "$kind" "$ranks" "${long[@]}" train.max_steps=5 > "$SCRATCH/first" || true
    good_at_end=5
    for ((i = 1; i <= moments; i++)); do
        moment "$kind"
        if [[ -n $why ]]; then
            echo "FAIL $kind, moment $i: $why"
            sed 's/^/    /' "$SCRATCH/$kind.out" | tail -n 15
            ((failures += 1))
        else
            ((passed += 1, good += 1))
        fi
        worst_s=$(awk -v a="$worst_s" -v b="$ended_s" 'BEGIN { print (a + 0 > b + 0 ? a : b) }')
        ((lost > worst_lost)) && worst_lost=$lost
    done
    failed=0
    train "$kind" "$ranks" "${long[@]}" "train.max_steps=$(($(field "$kind" step step) + 3))"
    if ((failed)); then
        echo "FAIL $kind: the run cannot be ended"
        ((failures += 1))
    fi
    if ((markdown)); then
        echo "| $kind | $good of $moments | $worst_s s | $worst_lost |"
    else
        echo "ok   $kind: $good of $moments; at most $worst_s s to the end," \
            "$worst_lost steps behind the newest good checkpoint"
    fi
    [[ $kind == full_disk ]] && umount "$SCRATCH/full_disk"
}

if ! have_mpi; then
    echo "built without Open MPI"
    exit 77
fi
make_data "$SCRATCH/data" 12 1
cp -r "$SCRATCH/data/train" "$SCRATCH/data/copy"
make_config
no_grace
((markdown)) && printf '%s\n' \
    '| what is broken | moments that went well | longest until the end | most steps lost |' \
    '|---|---|---|---|'
for kind in "${kinds[@]}"; do
    declare -F "do_$kind" > /dev/null || {
        echo "failure_sweep.sh: there is no kind $kind" >&2 && exit 64
    }
    sweep "$kind"
done
[[ -n $own_scratch ]] || rm -rf "$SCRATCH"
echo "$passed passed, $failures failed, 0 skipped"
((failures == 0 && passed > 0))
