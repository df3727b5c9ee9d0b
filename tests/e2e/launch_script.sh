#!/usr/bin/env bash
# launch_script.sh - convoy launch: hosts scripts that fail, hang, print junk, duplicates or
# nothing; options; what is not tried again.
source tests/e2e/lib/common.sh
source tests/e2e/lib/hosts.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
make_data "$SCRATCH/data" 12 1
make_config
endless=(train.epochs=100000 schedule.name=constant train.batch_mode=global train.global_batch=12
    train.batch_per_rank=12)
make_hosts h1 h2

# What would fail again is not tried again.
launch_command --min-hosts 2 -- bad "${endless[@]}" "data.train=$SCRATCH/none"
expect "no data" 65 timeout 60 "${launching[@]}"
[[ $(launch_events bad run attempt) == 1 ]] ||
    broken "no data: started '$(launch_events bad run attempt)' times"
launch_command --min-hosts 2 -- nan "${endless[@]}" optimizer.lr=1e6
expect "diverged" 71 timeout 60 "${launching[@]}"
[[ $(launch_events nan run attempt) == 1 ]] ||
    broken "diverged: started '$(launch_events nan run attempt)' times"
[[ $(launch_events nan exit reason) == "would fail again" ]] ||
    broken "diverged: ended with '$(launch_events nan exit reason)'"
expect_field "diverged" nan "done" code 71
# Nor by a supervisor that is started again, until the settings are others.
expect "diverged again" 71 timeout 60 "${launching[@]}"
expect_one_error "diverged again" "would again with the same settings"
# What was named goes on where auto stands now (all here name fp32), so that is no other setting.
launch_command --min-hosts 2 -- nan "${endless[@]}" optimizer.lr=1e6 train.precision=auto
expect "diverged, auto" 71 timeout 60 "${launching[@]}"
expect_one_error "diverged, auto" "would again with the same settings"
[[ $(launch_events nan run attempt) == 1 && $(events nan start) == 1 ]] ||
    broken "diverged again: the run was started"
launch_command --min-hosts 2 -- nan "${endless[@]}" optimizer.lr=1e-4 train.max_steps=1 \
    checkpoint.every_epochs=0
expect "diverged, another rate" 0 timeout 60 "${launching[@]}"
launch_command --min-hosts 2 -- bad checkpoint.resume=none
expect "resume none" 64 timeout 60 "${launching[@]}"
expect_one_error "resume none" "checkpoint.resume"

# Three ranks cannot share a batch of 8: two do.
make_hosts h1 h2 h3
launch_command --min-hosts 2 -- odd "${endless[@]}" train.global_batch=8 train.max_steps=2
expect "a batch for two" 0 timeout 60 "${launching[@]}"
[[ $(launch_events odd run ranks) == 2 ]] ||
    broken "a batch for two: $(launch_events odd run ranks) ranks"

# Where no number of hosts can share the batch, that is said, whatever else is wrong.
make_hosts h1 h2 h3 h1
launch_command --min-hosts 3 --wait-hosts 0.5 -- odd "${endless[@]}" train.global_batch=8
expect "a batch for none" 75 timeout 60 "${launching[@]}"
expect_text "a batch for none" some \
    "train.global_batch 8 is not divisible by the ranks of 3 to 3 of them"

# What a script leaves behind is reaped, and script and hosts are asked once a look.
make_hosts h1 h2
settings tidy "${endless[@]}"
"$CONVOY" launch --hosts-script "(sleep 0.05 &); date +%s%3N >> $SCRATCH/looks; cat $SCRATCH/list" \
    --agent "$SCRATCH/agent" --poll 0.4 \
    -- train "${sets[@]}" > "$SCRATCH/tidy.out" 2>&1 &
pid=$!
for ((tries = 0; tries < 1000; tries++)); do
    [[ -e $SCRATCH/looks && $(wc -l < "$SCRATCH/looks") -ge 8 ]] && break
    sleep 0.02
done
# A machine with much to do may be late once, but not for ever.
for ((tries = 0; tries < 50; tries++)); do
    mapfile -t processes < <(children "$pid")
    dead=$(for process in "${processes[@]}"; do
        grep -s '^State:[[:space:]]*Z' "/proc/$process/status"
    done | wc -l)
    ((dead > 2)) || break
    sleep 0.1
done
((dead <= 2)) || broken "a script's orphans: $dead of them are zombies"
soonest=$(awk 'NR > 1 && (NR == 2 || $1 - last < soonest) { soonest = $1 - last }
    { last = $1 }
    END { print soonest }' "$SCRATCH/looks")
((soonest >= 350)) || broken "one look after $soonest ms: --poll is 0.4"
kill -TERM "$pid"
wait_to_end 60

# TERM is seen while a script hangs.
"$CONVOY" launch --hosts-script "echo > $SCRATCH/hangs; sleep 100" \
    -- train "${sets[@]}" > "$out" 2>&1 &
pid=$!
for ((tries = 0; tries < 1000; tries++)); do
    [[ -e $SCRATCH/hangs ]] && break
    sleep 0.02
done
kill -TERM "$pid"
SECONDS=0
wait_to_end 60
((code == 75 && SECONDS <= 5)) ||
    broken_run "TERM while the script hangs: exit code $code after $SECONDS s"

# A supervisor that was suspended for so long that another host has taken its run
# leaves without a trace on it.
launch_in_background --min-hosts 2 -- taken "${endless[@]}"
wait_for_starts taken 2
wait_for_progress taken 2
echo "elsewhere 77 $(date +%s)" > "$SCRATCH/taken/launch.lock"
SECONDS=0
wait_to_end 60
cp "$SCRATCH/taken.out" "$out"
((code == 78 && SECONDS <= 30)) || broken_run "taken: exit code $code after $SECONDS s"
expect_one_error "taken" "another convoy launch took over this run"
expect_nothing_runs "taken"
grep -q '^elsewhere 77 ' "$SCRATCH/taken/launch.lock" ||
    broken "taken: the other's lock was written to"

# What cannot be run is said by its name.
mkdir "$SCRATCH/bin" &&
    ln -s "$(command -v sh)" "$(command -v cat)" "$(command -v mkdir)" "$SCRATCH/bin"
launch_command -- none "${endless[@]}"
expect "no mpirun" 78 env PATH="$SCRATCH/bin" "${launching[@]}"
expect_one_error "no mpirun" "cannot start mpirun: No such file"
expect "no agent" 64 timeout 60 "$CONVOY" launch --hosts-script "echo h1" --agent "$SCRATCH/agnet" \
    -- train "${sets[@]}"
expect_one_error "no agent" "--agent $SCRATCH/agnet: cannot be run"

# The hosts script of the ECS task fails where the name service does. (envsubst, which fills the
# file in, would take its variables.)
sed -nE "s/.*--hosts-script '([^']*)'.*/\1/p" scripts/docker/ecs-launcher.json |
    sed 's/\\"/"/g' > "$SCRATCH/ecs"
[[ $(< "$SCRATCH/ecs") == *getent* && $(< "$SCRATCH/ecs") != *'$'* ]] ||
    broken "ecs-launcher.json: the script is '$(< "$SCRATCH/ecs")'"
printf '#!/bin/sh\nprintf "10.0.0.2  STREAM\\n10.0.0.1  STREAM\\n10.0.0.2  DGRAM\\n"\n' \
    > "$SCRATCH/bin/getent"
chmod +x "$SCRATCH/bin/getent"
[[ $(cd "$SCRATCH" && PATH="$SCRATCH/bin:$PATH" sh ecs | xargs) == "10.0.0.1 10.0.0.2" ]] ||
    broken "ecs-launcher.json: the script does not list its hosts"
printf '#!/bin/sh\nexit 2\n' > "$SCRATCH/bin/getent"
(cd "$SCRATCH" && PATH="$SCRATCH/bin:$PATH" sh ecs) &&
    broken "ecs-launcher.json: the script hides that no name was found"

# script WHAT RC COMMAND TEXT - a hosts script that is wrong: one line says how, no spin,
# the exit code is known.
script()
{
    local lines
    settings script "${endless[@]}"
    expect "$1" "$2" timeout 60 "$CONVOY" launch --hosts-script "echo x >> $SCRATCH/calls; $3" \
        --agent "$SCRATCH/agent" --min-hosts 2 \
        --wait-hosts 1 --poll 0.3 -- train "${sets[@]}"
    lines=$(grep -c '^convoy launch: warning:' "$out")
    ((lines == 1)) || broken_run "$1: $lines warnings, expected 1"
    grep '^convoy launch: warning:' "$out" | grep -qF -- "$4" ||
        broken_run "$1: the warning does not hold '$4'"
    lines=$(wc -l < "$SCRATCH/calls")
    ((lines <= 6)) || broken_run "$1: the script was called $lines times"
    rm -f "$SCRATCH/calls" "$SCRATCH/script/launch.jsonl"
}
script "script that fails" 75 "echo no such cluster >&2; exit 3" \
    "failed with exit code 3: no such cluster"
script "script that names nothing" 75 true "lists no hosts"
script "script that prints junk" 75 "echo h1; echo 'error: <html>'" \
    "line 2: \"error: <html>\" is not a host name"
script "script that says something else each time" 75 "date +%N >&2; exit 1" \
    "failed with exit code 1: "
script "script that hangs" 75 "sleep 100" "was killed after 10 s"
script "script that is none" 64 "exec /none/such" "failed with exit code 127"
expect_nothing_runs "scripts"
make_hosts h1 h2 h1:1 h2
launch_command --min-hosts 2 -- twice "${endless[@]}" train.max_steps=2
expect "duplicates" 0 timeout 60 "${launching[@]}"
expect_text "duplicates" 1 "lists some hosts twice"
[[ $(launch_events twice run ranks) == 2 ]] ||
    broken "duplicates: $(launch_events twice run ranks) ranks, expected 2"
touch "$SCRATCH/hosts/h1.down" # and no warning about duplicates hides it
launch_command --min-hosts 2 --wait-hosts 0.5 -- twice "${endless[@]}"
expect "duplicates, one silent" 75 timeout 60 "${launching[@]}"
expect_text "duplicates, one silent" some "1 of at least 2 hosts: h1 does not answer"
revive_host h1
make_hosts h1 h2:1
launch_command --min-hosts 2 --slots 2 --mpirun-args "--output-filename $SCRATCH/said" \
    -- slots "${endless[@]}" train.max_steps=2
expect "slots" 0 timeout 60 "${launching[@]}"
[[ $(launch_events slots run ranks) == 3 ]] ||
    broken "slots: $(launch_events slots run ranks) ranks, expected 2 and 1"
[[ -d $SCRATCH/said ]] || broken "--mpirun-args: mpirun was not told"
make_hosts h1 h2
touch "$SCRATCH/hosts/h2.down"
launch_command --min-hosts 2 --wait-hosts 1 -- silent "${endless[@]}"
expect "a silent host" 75 timeout 60 "${launching[@]}"
expect_text "a silent host" some "1 of at least 2 hosts: h2 does not answer"

# The run folder is another's: waited for while nothing comes from there,
# an error once it is seen to live.
revive_host h2
# Of the 10 s rank 0 itself waits half.
launch_command --min-hosts 2 --wait-hosts 1 -- slots "${endless[@]}" comm.timeout_s=10
(exec 9>> "$SCRATCH/slots/metrics.jsonl" && flock 9 && exec sleep 100) &
holder=$!
wait_for_lock "$SCRATCH/slots/metrics.jsonl"
expect "a locked folder" 75 timeout 60 "${launching[@]}"
expect_text "a locked folder" 1 "gave up after 1 s of waiting for the run folder"
kill "$holder"
launch_command --min-hosts 2 -- slots "${endless[@]}" comm.timeout_s=10
(exec 9>> "$SCRATCH/slots/metrics.jsonl" && flock 9 &&
    while sleep 0.1; do echo '{"event":"step","step":3}' >&9; done) &
holder=$!
wait_for_lock "$SCRATCH/slots/metrics.jsonl"
expect "a folder in use" 74 timeout 60 "${launching[@]}"
expect_one_error "a folder in use" "another convoy is writing to this run folder"
kill "$holder"

# A script that fails while the run goes on: the last good list holds.
launch_command --min-hosts 2 -- later "${endless[@]}" train.max_steps=150
launching[3]="[ ! -e $SCRATCH/asked ] || exit 3; touch $SCRATCH/asked; printf 'h1\\nh3\\n'"
expect "a script that fails later" 0 timeout 60 "${launching[@]}"
expect_text "a script that fails later" 1 "failed with exit code 3"
[[ $(launch_events later run ranks) == 2 ]] ||
    broken "a script that fails later: starts with '$(launch_events later run ranks)' ranks"

# An agent with many options is called as a whole: that h2 is silent shows it.
touch "$SCRATCH/hosts/h2.down"
launch_command --min-hosts 2 --wait-hosts 1 -- long "${endless[@]}"
launching[5]="$SCRATCH/agent$(printf ' -oOption%d' {1..300})"
expect "a long agent" 75 timeout 60 "${launching[@]}"
expect_text "a long agent" some "1 of at least 2 hosts: h2 does not answer"
revive_host h2

# --grace: a rank that hangs saves no checkpoint, and is ended when the time is over.
launch_in_background --min-hosts 2 --grace 1 -- grace "${endless[@]}"
wait_for_starts grace 2
wait_for_progress grace 3
for process in $(host_processes h2); do
    [[ $(readlink "/proc/$process/exe") == "$(readlink -f "$CONVOY")" ]] && kill -STOP "$process"
done
kill -TERM "$pid"
SECONDS=0
wait_to_end 60
cp "$SCRATCH/grace.out" "$out"
((code == 75)) || broken_run "--grace: exit code $code, expected 75"
((SECONDS <= 20)) || broken "--grace 1: the end took $SECONDS s"
expect_text "--grace" 1 "the run has not ended 1 s after the request for a checkpoint"
expect_text "--grace" 1 "its newest checkpoint is older"
expect_nothing_runs "--grace"

# Options.
expect_error "no script" 64 "missing option -n or --hosts-script" 1 launch -- train \
    "$SCRATCH/small.yaml"
expect_error "no command" 64 "missing argument -- train CONFIG" 1 launch --hosts-script true
expect_error "another command" 64 "not eval" 1 launch --hosts-script true -- eval x
expect_error "a wrong number" 64 "--min-hosts 0" 1 launch --hosts-script true --min-hosts 0 \
    -- train "$SCRATCH/small.yaml"
expect_error "less than the least" 64 "--max-hosts 1 is less" 1 launch --hosts-script true \
    --min-hosts 2 --max-hosts 1 -- train "$SCRATCH/small.yaml"
expect_error "status of nothing" 64 "launch.status.json" 1 launch --status "$SCRATCH"
expect_error "a wrong key" 64 "data.trian" 1 launch --hosts-script true \
    -- train "$SCRATCH/small.yaml" --set data.trian=x
exit "$failed"
