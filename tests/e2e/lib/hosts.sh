# The scripts read what is set here; common.sh sets failed, sets and SCRATCH.
# shellcheck shell=bash disable=SC2034,SC2154
#
# hosts.sh - supervised runs: several "hosts" on this machine, and waiting for what convoy launch
# writes. Sourced after common.sh.
#
# A host is a name and a folder. The agent, which Open MPI and convoy launch call as they would call
# ssh, starts the command here in a session of its own, with a temporary folder of its own, so that
# a host's processes can be killed at once, and with Open MPI 5, to which hosts of one host name are
# one, a host name of its own. In $SCRATCH/hosts: NAME.down (does not answer),
# NAME.hang (never answers), NAME.sessions; in $SCRATCH/list what the hosts script prints.

# make_hosts NAME... - the agent, and a hosts script's list of them.
make_hosts()
{
    local apart=
    mkdir -p "$SCRATCH/hosts"
    if [[ $(mpirun --version) == *'Open MPI) 5'* ]]; then
        apart="unshare --uts"
        $apart true 2> /dev/null || { echo "host names of their own need root" && exit 77; }
    fi
    cat > "$SCRATCH/agent" << END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
[[ -e $SCRATCH/hosts/\$host.hang ]] && sleep 30
[[ -e $SCRATCH/hosts/\$host.down ]] && exit 255
export TMPDIR=$SCRATCH/hosts/\$host
mkdir -p "\$TMPDIR"
[[ \$* == true ]] && exit 0 # asked whether it is there
export HOST=\$host
exec setsid --wait $apart bash -c 'echo \$\$ >> "\$TMPDIR.sessions"
    ${apart:+hostname "\$HOST"}
    exec bash -c "\$*"' agent "\$@"
END
    chmod +x "$SCRATCH/agent"
    printf '%s\n' "$@" > "$SCRATCH/list"
}

# host_processes NAME... - what the agent has started on hosts, and all that came of it: mpirun's
# daemons leave the agent's session, the temporary folder stays.
host_processes()
{
    local host
    for host; do
        grep -lzxF "TMPDIR=$SCRATCH/hosts/$host" /proc/[0-9]*/environ 2> /dev/null
    done | sed -E 's,/proc/([0-9]+)/.*,\1,'
}

# kill_host NAME - nothing of it runs any more and it does not answer.
kill_host()
{
    local victims
    touch "$SCRATCH/hosts/$1.down"
    mapfile -t victims < <(host_processes "$1")
    kill -9 "${victims[@]}" 2> /dev/null
}

revive_host()
{
    rm -f "$SCRATCH/hosts/$1.down"
}

# launch_command OPTION... -- RUN KEY=VALUE... - sets the array `launching` to a convoy launch of
# small.yaml into $SCRATCH/RUN. $cooldown: for how many seconds a host is left out (1).
launch_command()
{
    launching=("$CONVOY" launch --hosts-script "cat $SCRATCH/list" --agent "$SCRATCH/agent"
        --poll 0.3 --lost-after 1.5 --cooldown "${cooldown:-1}" --grow-after 1)
    while [[ $1 != -- ]]; do
        launching+=("$1")
        shift
    done
    settings "${@:2}"
    launching+=(-- train "${sets[@]}")
}

# launch_in_background OPTION... -- RUN KEY=VALUE... - sets pid; output in $SCRATCH/RUN.out.
launch_in_background()
{
    local run=$*
    run=${run#*-- }
    run=${run%% *}
    launch_command "$@"
    "${launching[@]}" > "$SCRATCH/$run.out" 2>&1 &
    pid=$!
}

# launch_events RUN EVENT KEY - the values of KEY in all such records of launch.jsonl, in one line.
launch_events()
{
    sed -nE "/\"event\":\"$2\"/s/.*\"$3\":\"?([^,\"}]*).*/\\1/p" "$SCRATCH/$1/launch.jsonl" \
        2> /dev/null | xargs
}

# wait_for_starts RUN TEXT - until the ranks of the starts so far are TEXT ("3 2").
wait_for_starts()
{
    local tries
    for ((tries = 0; tries < 1500; tries++)); do
        [[ $(launch_events "$1" run ranks) == "$2" ]] && return
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.02
    done
    broken "$1: ranks of the starts are '$(launch_events "$1" run ranks)', expected '$2'"
    sed 's/^/    /' "$SCRATCH/$1.out"
}

# wait_for_progress RUN STEPS - until the run has recorded so many steps more than now.
wait_for_progress()
{
    wait_for_step "$1" $(($(field "$1" step step) + $2))
}

# expect_little_lost RUN EVERY - each start went on from the newest checkpoint that was recorded, or
# a newer one; they are so many steps apart at most, and each end cost no more than the steps since
# the one before the newest, which may not have been whole.
expect_little_lost()
{
    local ends resumed i faults
    read -r -a ends <<< "$(launch_events "$1" exit step)"
    mapfile -t resumed < <(sed -nE 's/.*"event":"resume".*"step":([0-9]+).*/\1/p' \
        "$SCRATCH/$1/metrics.jsonl")
    ((${#resumed[@]})) || broken "$1: nothing went on"
    faults=$(awk -v every="$2" '
        match($0, /"step":[0-9]+/) { step = substr($0, RSTART + 7, RLENGTH - 7) + 0 }
        /"event":"checkpoint"/ {
            if (step - saved > every) print "no checkpoint between " saved " and " step
            saved = step
        }
        /"event":"resume"/ {
            if (step < saved) print "went on from " step ", " saved " was saved"
            saved = step
        }' "$SCRATCH/$1/metrics.jsonl")
    [[ -z $faults ]] || broken "$1: $faults"
    for ((i = 0; i < ${#resumed[@]}; i++)); do
        ((ends[i] - resumed[i] <= 2 * $2)) || broken \
            "$1: start $((i + 1)) ended after step ${ends[i]}, the next began at ${resumed[i]}"
    done
}

# wait_for_lock FILE - until somebody holds it.
wait_for_lock()
{
    local tries
    for ((tries = 0; tries < 500; tries++)); do
        flock -n "$1" true || return
        sleep 0.02
    done
    broken "nobody holds $1"
}

# wait_for_text RUN TEXT - until the supervisor has said so.
wait_for_text()
{
    local tries
    for ((tries = 0; tries < 500; tries++)); do
        grep -qF -- "$2" "$SCRATCH/$1.out" && return
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.02
    done
    broken "$1: was not said: $2"
    sed 's/^/    /' "$SCRATCH/$1.out"
}

# expect_nothing_runs WHAT - no process of this test is left, at most 5 s from now.
expect_nothing_runs()
{
    local tries left names
    mapfile -t names < <(find "$SCRATCH/hosts" -name '*.sessions' -exec basename {} .sessions \;)
    echo "$SCRATCH/small.yaml" > "$SCRATCH/hosts/pattern" # in a file, or grep would find itself
    for ((tries = 0; tries < 50; tries++)); do
        left=$(grep -lzFf "$SCRATCH/hosts/pattern" /proc/[0-9]*/cmdline 2> /dev/null |
            sed -E 's,/proc/([0-9]+)/.*,\1,' | xargs)
        left="$left $(host_processes "${names[@]}" | xargs)"
        [[ -z ${left// /} ]] && return
        sleep 0.1
    done
    broken "$1: still running: $left"
}
