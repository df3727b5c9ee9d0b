#!/usr/bin/env bash
# launch_hosts.sh - convoy launch over hosts with a network between them: a link that fails for a
# moment, a host that is cut off with rank 0 on it, one that loses power, both returning. The run
# goes on each time, loses at most the steps since its last checkpoint,
# and leaves nothing on any host.
source tests/e2e/lib/common.sh
source tests/e2e/lib/hosts.sh
source tests/e2e/lib/netns.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
hosts_begin
make_data "$SCRATCH/data" 12 1
make_config
# Ten steps an epoch, and from checkpoint to checkpoint. No rank misses a peer within this test
# (comm.timeout_s is 600 s).
apart=10
endless=(train.epochs=100000 schedule.name=constant train.batch_mode=global train.global_batch=12
    train.batch_per_rank=12
    "checkpoint.every_steps=$apart" checkpoint.every_epochs=0 watchdog.disconnect_s=6)
# From a cut to the end of all on that host: disconnect_s, a question, the daemon's own 5 s,
# and a busy machine.
alone_s=20
without_s=60 # from the loss of a host to steps without it, on a busy machine

# wait_for_start_with RANKS SECONDS - until the newest start has so many ranks and has made steps.
wait_for_start_with()
{
    local end=$((SECONDS + $2)) ranks
    until ranks=$(launch_events main run ranks) &&
        [[ " $ranks" == *" $1" && $(field main start world) == "$1" ]]
    do
        if ((SECONDS >= end)) || ! kill -0 "$pid" 2> /dev/null; then
            broken "no start with $1 ranks within $2 s: '$ranks'"
            sed 's/^/    /' "$SCRATCH/main.out"
            return
        fi
        sleep 0.1
    done
    wait_for_progress main 4
}

hosts_up h1 h2 h3
launch_in_background --min-hosts 1 -- main "${endless[@]}"
wait_for_start_with 3 30
expect_field "three hosts" main start host h1
grep -qE "launch: start 1: 3 ranks on( [^ ]+:1){3}$" "$SCRATCH/main.out" ||
    broken "the first start does not say on which hosts"

# A link that comes back in time is no loss.
cut_link h2
sleep 1
mend_link h2
wait_for_progress main 4
[[ $(launch_events main run ranks) == 3 ]] ||
    broken "a second without a link: starts with '$(launch_events main run ranks)' ranks"

# Cut off, with rank 0 on it: the others go on, and what is on it ends by itself,
# while nobody can reach it.
wait_for_step main 15
cut_link h1
SECONDS=0
expect_nothing_on "cut off" $alone_s h1
wait_for_start_with 2 $((without_s - SECONDS))
grep -qE "start 1 failed after step [0-9]+ .*; hosts were lost; restart 1 of 10$" \
    "$SCRATCH/main.out" || broken "a host cut off: the restart is not told"

# Power fails.
power_off h2
wait_for_start_with 1 $without_s

# Both return.
mend_link h1
power_on h2
wait_for_start_with 3 $without_s

kill -TERM "$pid"
wait_to_end 60
((code == 75)) || broken "exit code $code after TERM, expected 75"
expect_nothing_on "at the end" 5 h1 h2 h3
expect_nothing_runs "at the end"

# What each loss has cost.
expect_little_lost main "$apart"
reasons=$(launch_events main exit reason)
[[ $reasons == "hosts were lost hosts were lost other hosts"*"asked to stop" ]] ||
    broken "ends: '$reasons'"
[[ $(launch_events main cooldown host) == "h1 h2" ]] ||
    broken "left out: '$(launch_events main cooldown host)', expected h1 and h2"

# To the end of an epoch: no step and no image is missing.
last=$((($(field main step step) / apart + 2) * apart))
launch_command --min-hosts 3 -- main "${endless[@]}" "train.max_steps=$last"
expect "finish" 0 timeout 60 "${launching[@]}"
sound_metrics main
[[ $(losses main | awk '{ print $1 }') == "$(seq "$last")" ]] ||
    broken "not every step from 1 to $last has a record"
expect_field "the last epoch" main epoch images 120
expect_nothing_on "after the last epoch" 5 h1 h2 h3
exit "$failed"
