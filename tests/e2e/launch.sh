#!/usr/bin/env bash
# launch.sh - convoy launch: hosts that die, leave and return, requests to stop, kills;
# nothing stays behind.
source tests/e2e/lib/common.sh
source tests/e2e/lib/hosts.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
make_data "$SCRATCH/data" 12 1
make_config
# A program of its own: convoy drain finds ranks by it.
cp "$CONVOY" "$SCRATCH/convoy" && CONVOY=$SCRATCH/convoy
endless=(train.epochs=100000 schedule.name=constant train.batch_mode=global train.global_batch=12
    train.batch_per_rank=12
    checkpoint.every_steps=10 checkpoint.every_epochs=0)

# A host dies: on with two. It returns: on with three. A request to stop: 75,
# and the next launch ends the run.
make_hosts h1 h2 h3
launch_in_background --min-hosts 2 --max-hosts 3 -- main "${endless[@]}"
wait_for_starts main 3
wait_for_step main 25
"$CONVOY" launch --status "$SCRATCH/main" > "$out" 2>&1 || broken_run "status of a run"
expect_text "status" 1 "state       running"
expect_text "status" 1 "3 ranks on h1:1 h2:1 h3:1; wanted 2 to 3"
# Gets the lock when rank 0 ends, and keeps it as a server does for a dead host,
# until the supervisor has seen it.
flock "$SCRATCH/main/metrics.jsonl" timeout 60 \
    sh -c "until grep -q 'waiting for the run folder' $SCRATCH/main.out; do sleep 0.1; done" &
kill_host h2
wait_for_starts main "3 2"
wait_for_progress main 15
"$CONVOY" launch --status "$SCRATCH/main" > "$out" 2>&1
expect_text "status after a loss" 1 "2 ranks on h1:1 h3:1"
expect_text "status after a loss" 1 "1 of 10 restarts after failures used"
waits="waiting for the run folder: another convoy holds the lock of $SCRATCH/main/metrics.jsonl"
grep -qF "$waits" "$SCRATCH/main.out" ||
    broken "a lock that outlives its host: not waited for"
revive_host h2
wait_for_starts main "3 2 3"
wait_for_progress main 15
kill -TERM "$pid"
wait_to_end 60
((code == 75)) || broken "main: exit code $code after TERM, expected 75"
expect_nothing_runs "main"
[[ $(launch_events main exit reason) == "hosts were lost other hosts asked to stop" ]] ||
    broken "main: ends are '$(launch_events main exit reason)'"
[[ $(launch_events main cooldown host) == h2 ]] ||
    broken "main: '$(launch_events main cooldown host)' cooled down, expected h2"
expect_little_lost main 10
last=$(field main step step)
launch_command --min-hosts 2 -- main "${endless[@]}" "train.max_steps=$((last + 5))"
expect "finish" 0 timeout 60 "${launching[@]}"
sound_metrics main
[[ $(losses main | awk '$1 != NR { print "no record of step " NR; exit }') == "" ]] ||
    broken "main: steps are missing"
[[ $(field main step step) == $((last + 5)) ]] ||
    broken "main: ended at step $(field main step step)"
"$CONVOY" launch --status "$SCRATCH/main" > "$out" 2>&1
expect_text "status at the end" 1 "state       done"
expect_text "status at the end" 1 "(has ended)"

# A host is no longer listed, and answers: it leaves in order, nothing is lost,
# and it counts as no failure.
make_hosts h1 h2
launch_in_background --min-hosts 1 -- shrink "${endless[@]}"
wait_for_starts shrink 2
wait_for_step shrink 13
: > "$SCRATCH/list" # nothing is no list, however long: the run goes on
sleep 2.5
wait_for_progress shrink 2
[[ $(launch_events shrink run ranks) == 2 ]] ||
    broken "shrink: an empty list led to starts with '$(launch_events shrink run ranks)' ranks"
echo h1 > "$SCRATCH/list"
wait_for_starts shrink "2 1"
wait_for_progress shrink 5
[[ $(launch_events shrink exit reason) == "other hosts" ]] ||
    broken "shrink: '$(launch_events shrink exit reason)'"
[[ $(launch_events shrink exit code) == 75 ]] ||
    broken "shrink: left with '$(launch_events shrink exit code)', expected 75"

# drain: the ranks here save a checkpoint and leave, the supervisor starts them again.
timeout 60 "$CONVOY" drain > "$out" 2>&1 || broken_run "drain: exit code $?"
expect_text "drain" 1 "asked 1 rank "
wait_for_starts shrink "2 1 1"
wait_for_progress shrink 3
[[ $(launch_events shrink exit reason) == "other hosts checkpoint saved" ]] ||
    broken "drain: '$(launch_events shrink exit reason)'"

# A second supervisor of the same run is refused.
launch_command -- shrink "${endless[@]}"
expect "second supervisor" 78 timeout 60 "${launching[@]}"
expect_one_error "second supervisor" "another convoy launch supervises this run"

# A supervisor that is killed takes all with it; the next goes on.
kill -9 "$pid"
wait "$pid" 2> /dev/null
expect_nothing_runs "killed supervisor"
"$CONVOY" launch --status "$SCRATCH/shrink" > "$out" 2>&1
expect_text "killed supervisor" 1 "disappeared"
timeout 60 "$CONVOY" drain > "$out" 2>&1 || broken_run "drain of nothing: exit code $?"
expect_text "drain of nothing" 1 "asked 0 ranks"
last=$(field shrink step step)
launch_command -- shrink "${endless[@]}" "train.max_steps=$((last + 5))"
expect "after a killed supervisor" 0 timeout 60 "${launching[@]}"

# A host that is needed is taken again after half of --wait-hosts,
# however long it would be left out.
make_hosts h1 h2
cooldown=1000 launch_in_background --min-hosts 2 --wait-hosts 8 -- needed "${endless[@]}"
wait_for_starts needed 2
wait_for_progress needed 2
kill_host h2
wait_for_text needed "waiting for hosts: 1 of at least 2 hosts; left out after losses: h2"
revive_host h2
wait_for_starts needed "2 2"
kill -TERM "$pid"
wait_to_end 60

# Kills beyond the budget: 76, and the failures were counted, though mpirun ends with 0, as that of
# Open MPI 5 does where it has lost a daemon.
make_hosts h1 h2
mkdir "$SCRATCH/bin"
printf '#!/bin/bash\n%q "$@"\nexit 0\n' "$(command -v mpirun)" > "$SCRATCH/bin/mpirun"
chmod +x "$SCRATCH/bin/mpirun"
PATH=$SCRATCH/bin:$PATH launch_in_background --min-hosts 2 --max-restarts 1 -- \
    budget "${endless[@]}"
for starts in 2 "2 2"; do
    wait_for_starts budget "$starts"
    wait_for_progress budget 12
    mapfile -t victims < <(grep -lzxF train /proc/[0-9]*/cmdline 2> /dev/null |
        sed -E 's,/proc/([0-9]+)/.*,\1,')
    # A rank: the supervisor's children are called as it is until they have become something else.
    for victim in "${victims[@]}"; do
        [[ $(tr '\0' ' ' < "/proc/$victim/cmdline") == "$CONVOY train "* ]] &&
            kill -9 "$victim" && break
    done 2> /dev/null
done
wait_to_end 60
tr -d '\0' < "$SCRATCH/budget.out" > "$out" # Open MPI 5 ends a message of its own with NUL
((code == 76)) || broken_run "budget: exit code $code, expected 76"
expect_one_error "budget" "--max-restarts is 1"
expect_nothing_runs "budget"

# Nobody reads what is printed any more: the run goes on to its end, which an evaluation leaves as
# it is.
launch_command --min-hosts 1 --max-restarts 0 -- unread "${endless[@]}" train.max_steps=30 \
    "data.val=$SCRATCH/data/val" log.format=json
timeout 120 "${launching[@]}" 2>&1 | head -n 1 > "$out"
((PIPESTATUS[0] == 0)) || broken_run "unread: exit code ${PIPESTATUS[0]}"
[[ $(field unread step step) == 30 ]] || broken "unread: ended at step $(field unread step step)"
expect "eval of a launched run" 0 run 1 eval "$SCRATCH/unread"
expect "launch after an eval" 0 timeout 60 "${launching[@]}"
# A last record that is torn, or of a run that was stopped when nothing more was to do.
printf '{"event":"d' >> "$SCRATCH/unread/metrics.jsonl"
expect "launch after a torn record" 0 timeout 60 "${launching[@]}"
printf '\n{"event":"done","time":1,"code":75,"reason":"stopped"}\n' >> \
    "$SCRATCH/unread/metrics.jsonl"
for again in once twice; do
    expect "launch of a run with nothing to do, $again" 0 timeout 60 "${launching[@]}"
done
expect_field "nothing to do" unread "done" code 0

# Nothing has run at all: what an earlier start said at its end counts for nothing.
echo '{"event":"done","time":1,"code":65,"reason":"data"}' >> "$SCRATCH/budget/metrics.jsonl"
printf '#!/bin/bash\nexit 0\n' > "$SCRATCH/bin/mpirun"
launch_command --min-hosts 1 --max-restarts 1 -- budget "${endless[@]}"
PATH=$SCRATCH/bin:$PATH expect "an mpirun that starts nothing" 76 timeout 60 "${launching[@]}"

exit "$failed"
