#!/usr/bin/env bash
# hunt.sh [--tries N] [--seed N] [--markdown] [KIND...] - tries N times (40), in each of these ways,
# to make convoy crash, hang, lose a checkpoint or go wrong without a word:
#
#   faults       a call on a file fails with EIO or ESTALE, once or for good: data, index,
#                checkpoints, config, records; the run goes on, or one line names the file
#   commands     the same under predict, eval, export, inspect, index, pack, report, top
#   containers   shards, tars, TFRecord, IDX and CIFAR with bytes changed, cut off or added
#   shrink       a container is cut off or replaced while a run reads it
#   torn         the newest checkpoint is cut off at every 4 KiB (N ignored)
#   stops        TERM, HUP or USR1 at a random moment, from the first on, until the run is done:
#                its tensors are those of an unbroken run, bit for bit
#   rank_stops   the same for one of two ranks
#   supervisors  six convoy launch at once on one run folder: one has it
#   scripts      hosts scripts that hang, print garbage, megabytes, duplicates, options
#   clock        the clock of the wall goes back at every look
#   places       /dev/shm, TMPDIR or the folder of indexes missing, full or another user's
#
# Needs ./convoy and build/make_*: make all tools. The last line is "N passed, N failed, N skipped".
cd "$(dirname "$0")/../.." || exit 1
shopt -s nullglob
tries=40 seed=1 markdown=0 kinds=()
while (($#)); do
    case $1 in
    --tries) tries=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    --markdown) markdown=1 ;;
    -*) sed -n '2s/^# /usage: /p' "$0" >&2 && exit 64 ;;
    *) kinds+=("$1") ;;
    esac
    shift
done
((${#kinds[@]})) ||
    kinds=(faults commands containers shrink torn stops rank_stops supervisors scripts clock places)
own_scratch=${SCRATCH:-}
export SCRATCH=${SCRATCH:-$(mktemp -d)} CONVOY=${CONVOY:-$PWD/convoy}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
source tests/e2e/lib/common.sh
source tests/e2e/lib/hosts.sh
RANDOM=$seed
shim=$PWD/build/slow_files.so
passed=0 failures=0

# held - counts a try, of which `why` says what did not hold.
held()
{
    tried=$((tried + 1))
    if [[ -z $why ]]; then
        good=$((good + 1))
    else
        echo "FAIL $kind, try $tried: $why"
        sed 's/^/    /' "$out" 2> /dev/null | tail -n 8
    fi
}

# one_line CODES - the last command ended with one of CODES, and said one line of error if that is
# a failure. Sets why.
one_line()
{
    local lines
    why=""
    lines=$(grep -acE '^convoy( [a-z-]+)*: error:' "$out")
    [[ " $1 " == *" $code "* ]] || why="exit code $code"
    ((code == 0 || code == 75 || lines == 1)) || why="exit code $code with $lines lines of error"
}

# convoy ARGS... - sets code.
convoy()
{
    timeout -k 5 60 "$CONVOY" "$@" > "$out" 2>&1
    code=$?
}

small=(train.epochs=1 checkpoint.every_steps=2)

hunt_faults()
{
    local spec start files format calls i
    make_all
    settings half "${small[@]}" train.max_steps=3
    convoy train "${sets[@]}"
    for spec in "fresh data/" "fresh /index/" "fresh small.yaml" "fresh /run/" "half /run/" \
        "half /checkpoints" "half metrics.jsonl" \
        "fresh /sets tars" "fresh /sets records" "fresh /sets shards" "fresh /sets idx" \
        "fresh /sets cifar"; do
        read -r start files format <<< "$spec"
        more=("data.val=$SCRATCH/data/val")
        [[ -z $format ]] || more=("data.train=$SCRATCH/sets/$format" "data.mean=[0.5]")
        export SLOW_FILES_MATCH=$files SLOW_FILES_LOG=$SCRATCH/calls
        rm -f "$SCRATCH/calls"
        faulty "$start" 1000000000 5 1
        calls=$(sed -n 's/^calls //p' "$SCRATCH/calls")
        for ((i = 0; i < tries; i++)); do
            faulty "$start" $((RANDOM % calls)) $((i % 2 ? 5 : 116)) $((i % 3 ? 1 : 1000000))
            one_line "0 64 65 74"
            [[ $start != half || $code != 0 ]] || grep -qE 'resumed from|falling back' "$out" ||
                why="begun anew"
            held
        done
    done
    unset SLOW_FILES_MATCH SLOW_FILES_LOG
}

# faulty START SKIP ERRNO COUNT - a run that begins or goes on.
faulty()
{
    rm -rf "$SCRATCH/run" "$SCRATCH/index"
    [[ $1 == fresh ]] || cp -r "$SCRATCH/half" "$SCRATCH/run"
    settings run "${small[@]}" "${more[@]}"
    SLOW_FILES_SKIP=$2 SLOW_FILES_ERRNO=$3 SLOW_FILES_FAIL=$4 LD_PRELOAD=$shim \
        convoy train "${sets[@]}"
}

# Each command on what a run has left, with faults in the data and in the run folder.
hunt_commands()
{
    local run=$SCRATCH/done data=$SCRATCH/data/val calls i line words
    settings "done" "${small[@]}" "data.val=$data"
    convoy train "${sets[@]}"
    export SLOW_FILES_LOG=$SCRATCH/calls
    for line in "predict $run/checkpoints/latest $data/ring/0000.jpg" \
        "eval $run/config.yaml --checkpoint $run/checkpoints/latest" \
        "export $run/checkpoints/latest $SCRATCH/out.safetensors" \
        "export $run/checkpoints/latest $SCRATCH/out.onnx" \
        "inspect checkpoint $run/checkpoints/latest" "inspect dataset $data" \
        "index $data --out $SCRATCH/out.index" "pack $data $SCRATCH/packed" \
        "report $run --out $SCRATCH/out.html" "top $run --once"; do
        read -ra words <<< "$line"
        export SLOW_FILES_MATCH=$SCRATCH
        rm -rf "$SCRATCH/calls" "$SCRATCH/packed"
        SLOW_FILES_SKIP=1000000000 SLOW_FILES_ERRNO=5 LD_PRELOAD=$shim convoy "${words[@]}"
        calls=$(sed -n 's/^calls //p' "$SCRATCH/calls")
        for ((i = 0; i < tries; i++)); do
            rm -rf "$SCRATCH/packed"
            SLOW_FILES_SKIP=$((RANDOM % calls)) SLOW_FILES_ERRNO=$((i % 2 ? 5 : 116)) \
                SLOW_FILES_FAIL=$((i % 3 ? 1 : 1000000)) LD_PRELOAD=$shim convoy "${words[@]}"
            one_line "0 64 65 74"
            [[ -z $why ]] || why="${words[*]:0:2}: $why"
            held
        done
    done
    unset SLOW_FILES_MATCH SLOW_FILES_LOG
}

# damage FILE - changes some bytes, cuts the file off or adds to it.
damage()
{
    local size i
    size=$(stat -c %s "$1")
    case $((RANDOM % 4)) in
    0) truncate -s $(((RANDOM * 32768 + RANDOM) % size)) "$1" ;;
    1) head -c $((RANDOM % 5000 + 1)) /dev/urandom >> "$1" ;;
    2) for i in 1 2 3 4 5 6 7 8; do flip_byte "$1" $(((RANDOM * 32768 + RANDOM) % size)); done ;;
    3) for i in 1 2 3; do flip_byte "$1" $((RANDOM % (size < 600 ? size : 600))); done ;;
    esac
}

# make_all - a folder of each format below $SCRATCH/sets.
make_all()
{
    local i
    [[ ! -d $SCRATCH/sets ]] || return 0
    "$tools"/make_containers "$SCRATCH/data/train" "$SCRATCH/sets" > "$out" 2>&1
    rm -f "$SCRATCH/sets/tree.tar"
    convoy pack "$SCRATCH/data/train" "$SCRATCH/sets/shards"
    mkdir -p "$SCRATCH/sets/cifar" "$SCRATCH/sets/idx"
    for i in 1 2 3 4 5; do
        perl -e 'srand shift; print map { chr(rand 10), map { chr rand 256 } 1 .. 3072 } 1 .. 8' \
            "$i" > "$SCRATCH/sets/cifar/data_batch_$i.bin"
    done
    cp "$SCRATCH/sets/cifar/data_batch_1.bin" "$SCRATCH/sets/cifar/test_batch.bin"
    perl -e 'print pack("N4", 0x803, 40, 28, 28), map { chr rand 256 } 1 .. 40 * 784' \
        > "$SCRATCH/sets/idx/train-images-idx3-ubyte"
    perl -e 'print pack("N2", 0x801, 40), map { chr $_ % 10 } 1 .. 40' \
        > "$SCRATCH/sets/idx/train-labels-idx1-ubyte"
}

hunt_containers()
{
    local set files i
    make_all
    for set in "$SCRATCH"/sets/*/; do
        set=${set%/}
        settings container "data.train=$set" "${small[@]}" data.max_bad_fraction=1 \
            "data.mean=[0.5]" data.index=off
        convoy train "${sets[@]}"
        ((code == 0)) || { why="sound ${set##*/} ends with $code" && held; }
        for ((i = 0; i < tries; i++)); do
            rm -rf "$SCRATCH/broken" "$SCRATCH/container"
            cp -r "$set" "$SCRATCH/broken"
            mapfile -t files < <(find "$SCRATCH/broken" -type f)
            damage "${files[RANDOM % ${#files[@]}]}"
            settings container "data.train=$SCRATCH/broken" "${small[@]}" \
                data.max_bad_fraction=1 data.index=off "data.format=$(format_of "${set##*/}")"
            convoy train "${sets[@]}"
            one_line "0 64 65"
            held
        done
    done
}

format_of()
{
    declare -A formats=([tars]=webdataset [whole]=webdataset [records]=tfrecord)
    echo "${formats[$1]:-$1}"
}

hunt_shrink()
{
    local set files i file
    make_all
    for set in "$SCRATCH"/sets/*/; do
        set=${set%/}
        for ((i = 0; i < tries / 8 + 1; i++)); do
            rm -rf "$SCRATCH/broken" "$SCRATCH/shrunk"
            cp -r "$set" "$SCRATCH/broken"
            train_in_background shrunk 1 "data.train=$SCRATCH/broken" train.epochs=20 \
                data.max_bad_fraction=1 data.index=off data.cache=none data.read_ahead_mb=0.001 \
                "data.format=$(format_of "${set##*/}")" schedule.name=constant
            wait_for_step shrunk 2
            mapfile -t files < <(find "$SCRATCH/broken" -type f)
            file=${files[RANDOM % ${#files[@]}]}
            if ((i % 2)); then
                truncate -s $((RANDOM % 2000)) "$file"
            else
                head -c 3000 /dev/urandom > "$file.new" && mv "$file.new" "$file"
            fi
            wait_to_end 120
            cp "$SCRATCH/shrunk.out" "$out"
            one_line "0 65"
            held
        done
    done
}

hunt_torn()
{
    local whole size at first
    settings torn "${small[@]}"
    convoy train "${sets[@]}"
    whole=$(newest torn)
    size=$(stat -c %s "$whole")
    first=$(find "$SCRATCH/torn/checkpoints" -name 'step-*' ! -name "${whole##*/}" | sort |
        tail -n 1)
    cp "$whole" "$SCRATCH/whole"
    for ((at = 0; at < size; at += 4096)); do
        head -c "$at" "$SCRATCH/whole" > "$whole"
        convoy inspect checkpoint "$whole"
        one_line "65"
        [[ $code == 65 ]] && grep -qF "$whole" "$out" || why=${why:-"does not name the file"}
        # Of every sixteenth a whole run, which has to fall back.
        if ((at / 4096 % 16 == 0)); then
            rm -rf "$SCRATCH/again"
            cp -r "$SCRATCH/torn" "$SCRATCH/again"
            settings again "${small[@]}"
            convoy train "${sets[@]}"
            grep -qF "falling back to $SCRATCH/again/checkpoints/${first##*/}" "$out" ||
                why=${why:-"did not fall back"}
            "$tools"/make_ckptdiff "$(latest again)" "$SCRATCH/whole" > "$SCRATCH/differs" 2>&1 ||
                why=${why:-"fell back to other tensors"}
        fi
        held
    done
}

hunt_stops()
{
    stop_at_random 1
}

hunt_rank_stops()
{
    if have_mpi; then stop_at_random 2; fi
}

# stop_at_random RANKS - each try is one request; the run that it ends goes on until it is done.
stop_at_random()
{
    local signals=(TERM HUP USR1) runs=0 seconds i processes
    local long=(train.epochs=4 checkpoint.every_epochs=0 checkpoint.every_steps=7
        "data.val=$SCRATCH/data/val" train.eval_every=1)
    rm -rf "$SCRATCH/stopped" "$SCRATCH/unbroken"
    train unbroken "$1" "${long[@]}"
    for ((i = 0; i < tries; i++)); do
        train_in_background stopped "$1" "${long[@]}"
        wait_for_ranks "$1"
        seconds=$(awk -v r="$RANDOM" 'BEGIN { printf "%.3f", 0.012 + r / 32768 * 1.2 }')
        sleep "$seconds"
        kill "-${signals[i % 3]}" "${processes[RANDOM % $1]}" 2> /dev/null
        wait_to_end 60
        cp "$SCRATCH/stopped.out" "$out"
        one_line "0 75"
        if ((code == 0)); then
            failed=0
            same "done" unbroken stopped > "$SCRATCH/same" || true
            ((failed == 0)) || why="$(< "$SCRATCH/same")"
            runs=$((runs + 1))
            rm -rf "$SCRATCH/stopped"
        fi
        [[ -z $why ]] || why="${signals[i % 3]} after $seconds s: $why"
        held
    done
    train stopped "$1" "${long[@]}"
    failed=0
    same "the end" unbroken stopped || why="the last run has other tensors"
    echo "     $runs runs were stopped and ended in between"
}

hunt_supervisors()
{
    local i j pids winners lost
    have_mpi || return
    make_hosts h1
    for ((i = 0; i < tries / 8 + 1; i++)); do
        rm -rf "$SCRATCH/race"
        launch_command -- race train.epochs=100000 schedule.name=constant
        pids=()
        for j in 1 2 3 4 5 6; do
            timeout 60 "${launching[@]}" > "$SCRATCH/race.$j" 2>&1 &
            pids+=($!)
        done
        pid=${pids[0]}
        for ((j = 0; j < 200; j++)); do
            lost=$(cat "$SCRATCH"/race.? | grep -c 'another convoy launch supervises this run')
            ((lost == 5)) && break
            sleep 0.1
        done
        sleep 1
        timeout 60 "$CONVOY" stop "$SCRATCH/race" > "$out" 2>&1
        winners=0 lost=0 why=""
        for j in "${pids[@]}"; do
            wait "$j"
            case $? in
            75) winners=$((winners + 1)) ;;
            78) lost=$((lost + 1)) ;;
            esac
        done
        cat "$SCRATCH"/race.? >> "$out"
        ((winners == 1 && lost == 5)) || why="$winners had the run, $lost were refused"
        held
    done
}

hunt_scripts()
{
    local i script
    local scripts=('sleep 1000' 'yes x | head -c 30000000' 'head -c 100000 /dev/urandom' 'false'
        'echo -oProxyCommand=touch $SCRATCH/bad' 'echo --help' 'echo "h1;touch $SCRATCH/bad"'
        'echo "\$(touch $SCRATCH/bad)"' 'echo h1:99999999999' 'echo h1 slots=-3' 'echo "h1 h2 h3"'
        'echo ::1' 'kill -9 $$' 'exec 1>&-' 'printf "h1\0h2\n"' 'yes h1 | head -n 100000'
        'seq -f "host%.0f" 5000' 'printf "h1\nh1\nh1:2\n"' 'printf "%s" h1'
        'trap "" TERM; sleep 1000')
    have_mpi || return
    make_hosts h1
    export SCRATCH
    for ((i = 0; i < ${#scripts[@]}; i++)); do
        script=${scripts[i]}
        settings scripts train.max_steps=2 "${small[@]}"
        rm -rf "$SCRATCH/scripts"
        timeout -k 5 60 "$CONVOY" launch --hosts-script "$script" --agent "$SCRATCH/agent" \
            --wait-hosts 2 --poll 0.3 -- train "${sets[@]}" > "$out" 2>&1
        code=$?
        one_line "0 64 75 78"
        [[ ! -e $SCRATCH/bad ]] || why="a name was run as a command"
        (($(stat -c %s "$out") < 10000)) || why="said $(stat -c %s "$out") bytes"
        pgrep -f "sleep 1000" > /dev/null && why="${why:-the script still runs}"
        [[ -z $why ]] || why="$script: $why"
        held
    done
}

hunt_clock()
{
    local i
    train forward 1 "${small[@]}" "data.val=$SCRATCH/data/val"
    for i in 1 60 3600 100000000; do
        rm -rf "$SCRATCH/back"
        settings back "${small[@]}" "data.val=$SCRATCH/data/val"
        SLOW_FILES_BACK=$i LD_PRELOAD=$shim convoy train "${sets[@]}"
        rm -f "$(newest back)"
        SLOW_FILES_BACK=$i LD_PRELOAD=$shim convoy train "${sets[@]}"
        one_line 0
        grep -q 'resumed from' "$out" || why="begun anew"
        "$tools"/make_ckptdiff "$(latest forward)" "$(latest back)" > "$SCRATCH/differs" 2>&1 ||
            why=${why:-"other tensors by $i s"}
        convoy report "$SCRATCH/back" --out "$SCRATCH/report.html"
        ((code == 0)) || why=${why:-"report ends with $code"}
        convoy top "$SCRATCH/back" --once
        ((code == 0)) || why=${why:-"top ends with $code"}
        held
    done
}

# place WHAT CODES SHELL - a run of two ranks where SHELL has changed the places.
place()
{
    rm -rf "$SCRATCH/placed" "$SCRATCH/index"
    settings placed "${small[@]}" data.cache=ram
    # shellcheck disable=SC2016 # the inner shell's words
    unshare -m "${map_user[@]}" sh -c 'eval "$1" && shift && exec "$@"' sh "$3" \
        timeout -k 5 60 mpirun -n 2 "$CONVOY" train "${sets[@]}" > "$out" 2>&1
    code=$?
    one_line "$2"
    [[ -z $why ]] || why="$1: $why"
    held
}

hunt_places()
{
    map_user=()
    ((EUID == 0)) || map_user=(-U -r)
    unshare -m "${map_user[@]}" true 2> /dev/null || {
        echo "not tested: places: namespaces are not allowed here"
        return
    }
    place "/dev/shm of 64 KiB" "0 1" "mount -t tmpfs -o size=64k tmpfs /dev/shm"
    place "/dev/shm for reading" "0 1" "mount -t tmpfs -o ro tmpfs /dev/shm"
    place "no /dev/shm" "0 1" "mount -t tmpfs tmpfs /dev; mknod /dev/null c 1 3"
    place "no TMPDIR" "0 1 213" "export TMPDIR=/proc/nowhere"
    place "a full folder of indexes" "0 74" "mkdir -p $SCRATCH/index &&
        mount -t tmpfs -o size=4k tmpfs $SCRATCH/index && head -c 4096 /dev/zero > $SCRATCH/index/x"
    place "indexes for reading" "0 74" "mkdir -p $SCRATCH/index &&
        mount -t tmpfs -o ro tmpfs $SCRATCH/index"
    place "the index is a folder" "0 74" "mkdir -p $SCRATCH/index/train-00000000.index"
    if ((EUID == 0)) && command -v setpriv > /dev/null; then
        other_users_index
    fi
}

# Another user's indexes, which may be read and not written.
other_users_index()
{
    local as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    rm -rf "$SCRATCH/placed" "$SCRATCH/index"
    settings placed "${small[@]}"
    convoy train "${sets[@]}"
    mkdir -p "$SCRATCH/theirs" && chmod 777 "$SCRATCH/theirs" && chmod a+rx "$SCRATCH"
    settings theirs/run "${small[@]}" "data.index=$SCRATCH/index"
    timeout -k 5 60 "${as[@]}" "$CONVOY" train "${sets[@]}" > "$out" 2>&1
    code=$?
    one_line 0
    held
    # The data changes, and the old index cannot be replaced.
    touch "$SCRATCH/data/train"
    rm -rf "$SCRATCH/theirs/run"
    timeout -k 5 60 "${as[@]}" "$CONVOY" train "${sets[@]}" > "$out" 2>&1
    code=$?
    one_line 0
    held
}

make_data "$SCRATCH/data" 4 2
make_config
no_grace
((markdown)) && printf '%s\n' '| kind | tried | held |' '|---|---|---|'
for kind in "${kinds[@]}"; do
    declare -F "hunt_$kind" > /dev/null || {
        echo "hunt.sh: there is no kind $kind" >&2 && exit 64
    }
    tried=0 good=0
    "hunt_$kind"
    passed=$((passed + good)) failures=$((failures + tried - good))
    if ((markdown)); then echo "| $kind | $tried | $good |"; else echo "$kind: $good of $tried"; fi
done
[[ -n $own_scratch ]] || rm -rf "$SCRATCH"
echo "$passed passed, $failures failed, 0 skipped"
((failures == 0 && passed > 0))
