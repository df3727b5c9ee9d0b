#!/usr/bin/env bash
# untrusted.sh - what others wrote, named or left lying about (docs/security.md): it may be
# refused or shown, but it steers nothing: not the terminal, not a file elsewhere, not the process.
source tests/e2e/lib/common.sh
no_grace
make_data "$SCRATCH/data" 2 1
make_config

# ---- names that steer a terminal, forge a line, or are formulas ----

# no_escapes WHAT FILE - nothing in it acts on a terminal: no control character but line ends and
# tabs, none of C1.
no_escapes()
{
    LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$2" || return
    broken "$1: what steers a terminal comes through:"
    cat -v "$2"
}

for part in train val; do
    mv "$SCRATCH/data/$part/circle" "$SCRATCH/data/$part/"$'a\e[2J\xc2\x9bcircle'
    mv "$SCRATCH/data/$part/cross" "$SCRATCH/data/$part/=1+1"
done
train named 1
no_escapes "train" "$out"
no_escapes "log.txt" "$SCRATCH/named/log.txt"
checkpoint=$(latest named)
forged=$SCRATCH/$'x\nconvoy predict: error: forged\e[2J.jpg'
images=("$SCRATCH/data/val/=1+1/"*)
cp "${images[0]}" "$forged"
expect "predict" 0 run 1 predict "$checkpoint" "$forged"
no_escapes "predict" "$out"
[[ $(grep -c '^convoy predict: error' "$out") == 0 ]] ||
    broken_run "predict: a file's name makes a line"
expect_text "a class is shown" 1 '  a\x1b[2J\xc2\x9bcircle'
expect "predict --json" 0 run 1 predict "$checkpoint" "$forged" --json
no_escapes "predict --json" "$out"
expect_text "a class is a string" 1 '"a\u001b[2J\u009bcircle"'
expect_text "a name is a string" 1 'x\nconvoy predict: error: forged\u001b[2J.jpg'
expect "predict of no image" 65 run 1 predict "$checkpoint" $'no\x9b\e[2J\nsuch.jpg'
no_escapes "predict of no image" "$out"
expect_one_error "predict of no image" 'no\x9b\x1b[2J\nsuch.jpg: cannot'
expect "inspect dataset" 0 run 1 inspect dataset "$SCRATCH/data/val"
no_escapes "inspect dataset" "$out"
mkdir "$SCRATCH/bad_image" && cp -r "$SCRATCH/data/val/square" "$SCRATCH/bad_image/a"
echo text > "$SCRATCH/bad_image/a/"$'b\nunreadable 0\e.jpg'
expect "inspect dataset" 65 run 1 inspect dataset "$SCRATCH/bad_image"
no_escapes "inspect dataset of a bad image" "$out"
[[ $(grep -c '^unreadable 0' "$out") == 0 ]] || broken_run "inspect dataset: a name makes a line"
ln -s "$checkpoint" "$SCRATCH/"$'link\nstep 7\e'
expect "inspect checkpoint" 0 run 1 inspect checkpoint "$SCRATCH/"$'link\nstep 7\e'
no_escapes "inspect checkpoint" "$out"
[[ $(grep -c '^step 7' "$out") == 0 ]] || broken_run "inspect checkpoint: a name makes a line"
settings named "data.val=$SCRATCH/data/val"
expect "eval" 0 run 1 eval "${sets[@]}" --checkpoint "$checkpoint" \
    --per-class "$SCRATCH/classes.csv" --confusion "$SCRATCH/confusion.csv"
no_escapes "eval" "$out"
for file in classes confusion; do
    no_escapes "$file.csv" "$SCRATCH/$file.csv"
    if grep -qE "(^|,)\"?[=+@-][^0-9]*[=+]" "$SCRATCH/$file.csv"; then
        broken "$file.csv: a class is a formula"
    fi
    grep -qF "'=1+1" "$SCRATCH/$file.csv" || broken "$file.csv: no class '=1+1 in it"
done
mkdir "$SCRATCH/told"
printf '{"event":"start","time":1,"model":"m\\u001b[2J\\u009b\\nepoch 9","host":"h\\u0007"}\n' \
    > "$SCRATCH/told/metrics.jsonl"
expect "top" 0 run 1 top "$SCRATCH/told" --once
no_escapes "top" "$out"
expect_text "top" 1 'm\x1b[2J\xc2\x9b\nepoch 9'

# ---- closed descriptors: no file takes the place of what is printed to ----
settings closed
"$CONVOY" train "${sets[@]}" < /dev/null >&- 2> "$out" || broken_run "train >&-: status $?"
sound_metrics closed
settings all_closed
"$CONVOY" train "${sets[@]}" <&- >&- 2>&- || broken "train <&- >&- 2>&-: status $?"
sound_metrics all_closed
grep -q "done" "$SCRATCH/all_closed/log.txt" || broken "train <&- >&- 2>&-: no log.txt"
"$CONVOY" train "$SCRATCH/none.yaml" <&- >&- 2>&-
[[ $? == 64 ]] || broken "an error without a place to say it has another code"

# ---- files that never end, or are none: an error at once ----
mkfifo "$SCRATCH/fifo" "$SCRATCH/fifo.jpg"
mkdir "$SCRATCH/piped"
mkfifo "$SCRATCH/piped/metrics.jsonl"
# refused CODE TEXT ARGS... - within five seconds.
refused()
{
    local code=$1 text=$2
    shift 2
    expect "$*" "$code" timeout 5 "$CONVOY" "$@"
    expect_one_error "$*" "$text"
}
refused 64 "/dev/zero: cannot read: not a regular file" train /dev/zero
refused 64 "fifo: cannot read: not a regular file" train "$SCRATCH/fifo"
refused 64 ": not a run folder" train "$SCRATCH"
head -c 300000 /dev/zero > "$SCRATCH/large.yaml"
refused 64 "large.yaml: too large: 300000 bytes; the limit for this file is 262144" \
    train "$SCRATCH/large.yaml"
refused 65 "fifo.jpg: cannot read: not a regular file" predict "$checkpoint" "$SCRATCH/fifo.jpg"
refused 65 "/dev/zero: not a file" predict /dev/zero "$forged"
refused 65 "fifo: not a file" inspect checkpoint "$SCRATCH/fifo"
refused 65 "cannot read: not a regular file" report "$SCRATCH/piped" --out "$SCRATCH/page.html"
refused 65 "/dev/zero: cannot read: not a regular file" scale "$SCRATCH/small.yaml" \
    --set "scale.dir=$SCRATCH/scale" --rate 100 --predict /dev/zero
refused 65 "/dev/zero: cannot read: not a regular file" inspect memory "$SCRATCH/small.yaml" \
    --gpu /dev/zero
refused 65 "metrics.jsonl: cannot read: not a regular file" top "$SCRATCH/piped" --once

# ---- links that others have planted ----
echo precious > "$SCRATCH/victim"
victim_is_whole()
{
    [[ $(< "$SCRATCH/victim") == precious ]] || broken "$1: written through a link"
    echo precious > "$SCRATCH/victim"
}
mkdir "$SCRATCH/packed"
ln -s "$SCRATCH/victim" "$SCRATCH/packed/shard-00000.bin.tmp"
expect "pack" 0 run 1 pack "$SCRATCH/data/val" "$SCRATCH/packed"
victim_is_whole "pack"
[[ ! -e $SCRATCH/packed/shard-00000.bin.tmp ]] || broken "pack: the name of the shard is another"
for file in metrics.jsonl log.txt launch.lock; do
    rm -rf "$SCRATCH/planted" && mkdir "$SCRATCH/planted"
    ln -s "$SCRATCH/victim" "$SCRATCH/planted/$file"
    if ! chown -h 65534 "$SCRATCH/planted/$file" 2> /dev/null; then
        echo "not tested: links of other users: only root can make one"
        break
    fi
    if [[ $file == launch.lock ]]; then
        settings planted
        expect "$file" 74 run 1 launch --hosts-script "echo localhost" -- train "${sets[@]}"
    else
        train_fails planted 74 "$file is a symbolic link of another user" 1
    fi
    victim_is_whole "$file"
done

# ---- what the build adds against faults of our own ----

# hardened WHAT TEXT COMMAND... - the command prints TEXT about the program.
hardened()
{
    local what=$1 text=$2
    shift 2
    "$@" "$CONVOY" > "$out" 2>&1
    grep -qE -- "$text" "$out" || broken "hardening: no $what"
}

if nm -D "$CONVOY" | grep -q __asan_; then
    echo "not tested: hardening: built with a sanitizer"
else
    hardened "position-independent program" 'FLAGS_1.* PIE' readelf -dW
    hardened "read-only relocations" 'GNU_RELRO' readelf -lW
    hardened "binding at the start" 'FLAGS_1.* NOW' readelf -dW
    hardened "stack that does not run" 'GNU_STACK .* RW ' readelf -lW
    hardened "stack protector" '__stack_chk_fail' nm -D
    hardened "_FORTIFY_SOURCE" '__(vsnprintf|memcpy|snprintf|strcpy)_chk' nm -D
    if [[ $(uname -m) == x86_64 ]]; then
        hardened "control-flow protection" 'endbr64' objdump -d --disassemble=main
    fi
fi
exit "$failed"
