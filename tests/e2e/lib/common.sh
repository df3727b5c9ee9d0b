# shellcheck shell=bash disable=SC2034 # the scripts read what is set here
# common.sh - what the scripts of tests/e2e share: running convoy, saying what went wrong, looking
# into what a run has left. Sourced by them.
#
# A script states what should hold with the functions below, goes on after a failure, and ends with
# `exit "$failed"`. It writes only below $SCRATCH. Runs are small: ResNet-20 on JPEG files of
# make_shapes, on the CPU with one compute thread a rank and in fp32, so that results do not depend
# on the machine.
set -uo pipefail
failed=0
out=$SCRATCH/out # what the last command printed
tools=${CONVOY_TOOLS:-build} # where the helper programs lie: make_shapes and others

# broken WHAT... - something does not hold.
broken()
{
    echo "$*"
    failed=1
    : > "$SCRATCH/broken" # for scripts/e2e.sh: no skip hides it
}

# broken_run WHAT... - the same, and shows what the last command printed.
broken_run()
{
    broken "$@"
    sed 's/^/    /' "$out"
}

# Open MPI gives the ranks left over a second to end once one of them has failed. Where many runs
# are meant to fail that adds up.
no_grace()
{
    export OMPI_MCA_odls_base_sigkill_timeout=0
}

# have_mpi - whether several ranks can run; says so where they cannot. (grep -q would leave before
# convoy has said all, which ends convoy with an error and, under pipefail, this too.)
have_mpi()
{
    "$CONVOY" --version | grep '^MPI: Open MPI (lib' > /dev/null && return
    echo "not tested: several ranks: built without Open MPI"
    return 1
}

# run RANKS ARGS... - convoy on so many ranks; 1 means without mpirun.
run()
{
    local ranks=$1
    shift
    if ((ranks == 1)); then
        timeout --kill-after=5 120 "$CONVOY" "$@"
    else
        timeout --kill-after=5 120 mpirun -n "$ranks" "$CONVOY" "$@"
    fi
}

# expect WHAT RC COMMAND... - runs a command or function; its output stays in $out.
expect()
{
    local what=$1 want=$2 got
    shift 2
    "$@" > "$out" 2>&1
    got=$?
    ((got == want)) || broken_run "$what: exit code $got, expected $want"
}

# expect_text WHAT COUNT TEXT - lines of the last output that hold TEXT; COUNT may be "some".
expect_text()
{
    local what=$1 want=$2 lines
    lines=$(grep -cF -- "$3" "$out")
    [[ $want == some && $lines -gt 0 ]] && return
    [[ $want == "$lines" ]] && return
    broken_run "$what: '$3' is on $lines lines, expected $want"
}

# expect_error WHAT RC TEXT RANKS ARGS... - convoy fails with RC, prints one error line,
# and that line holds TEXT.
expect_error()
{
    local what=$1 want=$2 text=$3
    shift 3
    expect "$what" "$want" run "$@"
    expect_one_error "$what" "$text"
}

# What an error line begins with: "convoy train: error:".
error_line='^convoy( [a-z-]+)*: error:'

# expect_one_error WHAT TEXT - the last output has one error line, and that line holds TEXT.
expect_one_error()
{
    local lines
    lines=$(grep -cE "$error_line" "$out")
    [[ $lines == 1 ]] || broken_run "$1: $lines lines start with 'convoy ...: error:', expected 1"
    grep -E "$error_line" "$out" | grep -qF -- "$2" ||
        broken_run "$1: the error line does not hold '$2'"
}

# make_data DIR TRAIN VAL - an ImageFolder of so many images for each of ten classes.
make_data()
{
    "$tools"/make_shapes "$1" --train "$2" --val "$3" > "$out" ||
        broken_run "cannot make images in $1"
}

# make_config - writes $SCRATCH/small.yaml, to be trained on $SCRATCH/data;
# scripts change it with KEY=VALUE.
make_config()
{
    cat > "$SCRATCH/small.yaml" << END
model:
  name: resnet20
data:
  train: $SCRATCH/data/train
  image_size: 32
  eval_resize: 32
  mean: [0.5]
  std: [0.25]
  augment: cifar
  threads: 1
train:
  precision: fp32
  epochs: 1
  batch_per_rank: 8
optimizer:
  lr: 0.02
  lr_scaling: none
schedule:
  name: cosine
  warmup_epochs: 0
device:
  backend: cpu
  threads: 1
END
}

# settings RUN KEY=VALUE... - sets the array `sets` to the arguments for a run of
# small.yaml into $SCRATCH/RUN.
settings()
{
    local setting
    sets=("$SCRATCH/small.yaml" --set "run.dir=$SCRATCH/$1")
    shift
    for setting in "$@"; do sets+=(--set "$setting"); done
}

# train RUN RANKS KEY=VALUE... - trains small.yaml into $SCRATCH/RUN and expects success
# and a sound metrics.jsonl.
train()
{
    local name=$1 ranks=$2
    shift 2
    settings "$name" "$@"
    expect "train $name" 0 run "$ranks" train --verbose "${sets[@]}"
    sound_metrics "$name"
}

# train_fails RUN RC TEXT RANKS KEY=VALUE... - the run ends with RC and one
# error line that holds TEXT.
train_fails()
{
    local name=$1 code=$2 text=$3 ranks=$4
    shift 4
    settings "$name" "$@"
    expect_error "$name on $ranks" "$code" "$text" "$ranks" train "${sets[@]}"
}

# train_in_background RUN RANKS KEY=VALUE... - sets pid to the process to wait for: mpirun, or
# convoy itself; output in $SCRATCH/RUN.out.
train_in_background()
{
    local name=$1 ranks=$2 command=("$CONVOY")
    shift 2
    settings "$name" "$@"
    ((ranks == 1)) || command=(mpirun -n "$ranks" "$CONVOY")
    "${command[@]}" train "${sets[@]}" > "$SCRATCH/$name.out" 2>&1 &
    pid=$!
}

# slowly MS COMMAND... - with a storage where each image takes so long to open and to read: with
# data.readers=1 a step takes at least twice that for each image of its own, on any machine.
slowly()
{
    SLOW_FILES_MATCH=.jp SLOW_FILES_MS=$1 LD_PRELOAD=$PWD/build/slow_files.so "${@:2}"
}

# children PID - the processes that PID has started: under mpirun the ranks.
children()
{
    grep -lE "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2> /dev/null |
        sed -E 's,/proc/([0-9]+)/.*,\1,' | sort -n
}

# wait_for_ranks RANKS - until they have been started; sets the array `processes` to them.
wait_for_ranks()
{
    local tries=0
    processes=("$pid")
    (($1 == 1)) && return
    for ((tries = 0; tries < 1000; tries++)); do
        mapfile -t processes < <(children "$pid")
        ((${#processes[@]} == $1)) && return
        sleep 0.01
    done
    broken "mpirun has started ${#processes[@]} processes, expected $1"
}

# wait_for_handlers PID... - until SIGUSR1 asks each of the processes to stop rather than ends it.
wait_for_handlers()
{
    local process caught tries=0
    for process; do
        while ((++tries < 1000)); do
            caught=$(sed -nE 's/^SigCgt:[[:space:]]*//p' "/proc/$process/status" 2> /dev/null)
            ((0x${caught:-0} & 1 << 9)) && break
            sleep 0.01
        done
    done
}

# expect_gone WHAT PID... - none of the processes runs any more, at most 5 s from now. Dead ones
# that nobody has waited for do not count.
expect_gone()
{
    local what=$1 process tries=0
    shift
    for process; do
        while grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$process/status"; do
            if ((++tries > 250)); then
                broken "$what: process $process is still there"
                break
            fi
            sleep 0.02
        done
    done
}

# wait_for_step RUN STEP - until the run has recorded this step or $pid is gone.
wait_for_step()
{
    local tries=0
    until [[ $(field "$1" step step) -ge $2 ]]; do
        kill -0 "$pid" 2> /dev/null || return
        sleep 0.02
        ((++tries < 3000)) || return
    done
}

# wait_to_end SECONDS - waits for $pid at most so long, then kills it. Sets code to its exit code.
wait_to_end()
{
    local watchdog
    (sleep "$1" && kill -9 "$pid") 2> /dev/null &
    watchdog=$!
    wait "$pid" 2> /dev/null
    code=$?
    kill "$watchdog" 2> /dev/null
    wait "$watchdog" 2> /dev/null
}

# sound_metrics RUN - every line of metrics.jsonl is a record as promised, and the last one is done.
sound_metrics()
{
    local text
    text=$("$tools"/make_jsonlcheck "$SCRATCH/$1/metrics.jsonl") || broken_run "$1: $text"
}

# field RUN EVENT KEY - of the last record of that event; 0 if there is none.
field()
{
    awk -v event="\"event\":\"$2\"" -v key="\"$3\":" '
        index($0, event) && (at = index($0, key)) {
            value = substr($0, at + length(key))
            sub(/^"/, "", value)
            sub(/"?[,}].*/, "", value)
        }
        END { print value == "" ? 0 : value }' "$SCRATCH/$1/metrics.jsonl" 2> /dev/null || echo 0
}

# events RUN EVENT - how many records of that event.
events()
{
    grep -cF "\"event\":\"$2\"" "$SCRATCH/$1/metrics.jsonl"
}

# expect_field WHAT RUN EVENT KEY VALUE
expect_field()
{
    local value
    value=$(field "$2" "$3" "$4")
    [[ $value == "$5" ]] || broken "$1: $4 of the last $3 event is $value, expected $5"
}

# losses RUN - step and loss of each step, the last record of a step winning, in order.
losses()
{
    awk 'index($0, "\"event\":\"step\"") {
            match($0, /"step":[0-9]+/); step = substr($0, RSTART + 7, RLENGTH - 7)
            match($0, /"loss":[^,]+/); loss[step] = substr($0, RSTART + 7, RLENGTH - 7)
        }
        END { for (s in loss) print s, loss[s] }' "$SCRATCH/$1/metrics.jsonl" | sort -n
}

# norms RUN - step and norm of the gradients, in order; null where it is not finite.
norms()
{
    awk 'index($0, "\"event\":\"step\"") && match($0, /"grad_norm":[^,}]+/) {
            norm = substr($0, RSTART + 12, RLENGTH - 12)
            match($0, /"step":[0-9]+/); print substr($0, RSTART + 7, RLENGTH - 7), norm
        }' "$SCRATCH/$1/metrics.jsonl" | sort -n
}

# sound_tables PAGE - every row of a table has a cell below each head.
sound_tables()
{
    awk 'BEGIN { RS = "</tr>" }
        /<table>/ { heads = 0 }
        { h = gsub(/<th[ >]/, "&"); d = gsub(/<td[ >]/, "&"); rows += d > 0 }
        h && !d { heads = h; next }
        h || d && d != heads { print d " cells below " heads " heads: " $0; wrong = 1 }
        END { exit wrong || !rows }' "$1" > "$SCRATCH/tables" ||
        broken "$1: a row has not a cell below each head: $(head -c 300 "$SCRATCH/tables")"
}

# latest RUN - path of the newest checkpoint.
latest()
{
    readlink -f "$SCRATCH/$1/checkpoints/latest"
}

# same WHAT RUN RUN - the newest checkpoints are equal bit for bit: parameters,
# statistics, optimizer.
same()
{
    "$tools"/make_ckptdiff "$(latest "$2")" "$(latest "$3")" > "$out" 2>&1 ||
        broken_run "$1: $2 and $3 differ"
}

# near WHAT RUN RUN TOLERANCE - the same, to rounding.
near()
{
    "$tools"/make_ckptdiff "$(latest "$2")" "$(latest "$3")" "$4" > "$out" 2>&1 ||
        broken_run "$1: $2 and $3 differ by more than $4"
}

# far WHAT RUN RUN TOLERANCE - the opposite: shows that a comparison can fail.
far()
{
    "$tools"/make_ckptdiff "$(latest "$2")" "$(latest "$3")" "$4" > "$out" 2>&1
    (($? == 1)) || broken_run "$1: $2 and $3 do not differ by more than $4"
}

# follows WHAT RUN RUN TOLERANCE - the losses of both runs, step by step,
# differ by no more than this share.
follows()
{
    paste -d ' ' <(losses "$2") <(losses "$3") | awk -v tolerance="$4" '
        NF != 4 || $1 != $3 { print "the steps differ"; bad = 1; exit }
        { d = ($2 - $4) / $4; if (d < 0) d = -d; if (d > worst) worst = d }
        END {
            if (NR == 0) print "no steps"
            else if (worst > tolerance) print "losses differ by " worst
            exit bad || NR == 0 || worst > tolerance
        }' > "$out" ||
        broken_run "$1: $2 and $3"
}

# unlike WHAT RUN RUN TOLERANCE - follows() would fail: some loss differs by more than this share.
unlike()
{
    paste -d ' ' <(losses "$2") <(losses "$3") | awk -v tolerance="$4" '
        { d = ($2 - $4) / $4; if (d < 0) d = -d; if (d > tolerance) found = 1 }
        END { exit !found }' || broken "$1: the losses of $2 and $3 do not differ"
}

# newest RUN - the file with the highest step; "" if there is none.
newest()
{
    local file last=
    for file in "$SCRATCH/$1"/checkpoints/step-*.safetensors; do [[ -e $file ]] && last=$file; done
    echo "$last"
}

# flip_byte FILE OFFSET - inverts one byte.
flip_byte()
{
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf '%b' "\\x$(printf %x $((byte ^ 255)))" |
        dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
