# common.sh, sourced before, sets CONVOY, SCRATCH and failed; the scripts read what is set here.
# shellcheck shell=bash disable=SC2034,SC2154
#
# netns.sh - several hosts on this machine, for tests: sourced after common.sh and hosts.sh. A host
# is a set of namespaces (processes, network, host name, shared memory, mounts) with an address on a
# bridge, 10.77.0.N for hN. The script, and with it the launcher, sits outside the hosts at
# 10.77.0.254, as a launcher pod does, and shares its files with them. All of it is in namespaces of
# its own, in which nothing outlives the script.
#
# $SCRATCH/agent, which Open MPI and convoy launch call as they would call ssh, asks the host's
# address over that network first, and runs the command in the host with a bare environment: a host
# that is cut off cannot be reached by it. In $SCRATCH/hosts: NAME.pid, the first process of a host.

# hosts_begin ARGS... - first of all: enters the namespaces, running the script again with ARGS;
# skips (77) where that is not allowed.
hosts_begin()
{
    local why way=()
    [[ -z ${HOSTS_INSIDE:-} ]] || return 0
    command -v ip > /dev/null || { echo "ip is not installed (package iproute2)" && exit 77; }
    # shellcheck disable=SC2016 # the inner shell's words
    local needs='ip link add net0 type bridge && ip link add h0 type veth peer name eth0 &&
        mount --make-rprivate / && hostname h'
    ((EUID == 0)) || way=(-U -r)
    why=$(unshare "${way[@]}" -m -n -u -i -p -f --mount-proc sh -c "$needs" 2>&1) || {
        echo "namespaces with a network are not allowed here: $(tail -n 1 <<< "$why")"
        exit 77
    }
    HOSTS_INSIDE=1 exec unshare "${way[@]}" -m -n -u -i -p -f --kill-child \
        --mount-proc bash "$0" "$@"
}

# hosts_up NAME... - a bridge, the hosts on it, the agent, and a hosts script's list of them.
hosts_up()
{
    local name
    mkdir -p "$SCRATCH/hosts"
    {
        echo "127.0.0.1 localhost"
        echo "10.77.0.254 launcher"
        for name; do echo "10.77.0.${name#h} $name"; done
    } > "$SCRATCH/hosts/etc"
    mount --bind "$SCRATCH/hosts/etc" /etc/hosts
    hostname launcher
    ip link set lo up
    ip link add net0 type bridge
    ip addr add 10.77.0.254/24 dev net0
    ip link set net0 up
    cat > "$SCRATCH/agent" << END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$1 init=\$(cat "$SCRATCH/hosts/\$1.pid") said=
shift
# Nobody listens: a host that is there says so.
said=\$(timeout 2 bash -c ": < /dev/tcp/\$host/9" 2>&1)
[[ \$said == *refused* ]] || { echo "\$host: no answer" >&2 && exit 255; }
exec nsenter -t "\$init" -m -n -u -i -p env -i HOME="\$HOME" PATH="\$PATH" \
    TMPDIR="$SCRATCH/hosts/\$host" sh -c "\$*"
END
    chmod +x "$SCRATCH/agent"
    printf '%s\n' "$@" > "$SCRATCH/list"
    for name; do power_on "$name"; done
}

# power_on NAME - its first process starts nothing and buries what is left to it.
power_on()
{
    local number=${1#h} shell init tries
    mkdir -p "$SCRATCH/hosts/$1"
    rm -f "$SCRATCH/hosts/$1/wait"
    mkfifo "$SCRATCH/hosts/$1/wait"
    # shellcheck disable=SC2016 # the inner shell's words
    setsid unshare -f --kill-child -p -n -u -i -m --mount-proc bash -c '
        hostname "$1" && mount -t tmpfs shm /dev/shm || exit 78
        exec 3<> "$2"
        while :; do read -r -u 3; done' \
        host "$1" "$SCRATCH/hosts/$1/wait" > "$SCRATCH/hosts/$1.out" 2>&1 < /dev/null &
    shell=$!
    for ((tries = 0; tries < 500; tries++)); do
        init=$(children "$shell")
        [[ -n $init && $(nsenter -t "$init" -u hostname 2> /dev/null) == "$1" ]] && break
        sleep 0.01
    done
    echo "$init" > "$SCRATCH/hosts/$1.pid"
    # A fixed address of the card: the others' memory of a host that returns is right.
    ip link add "$1" type veth peer name eth0 address "02:00:0a:4d:00:0$number" netns "$init"
    ip link set "$1" master net0 up
    nsenter -t "$init" \
        -n sh -c "ip link set lo up; ip addr add 10.77.0.$number/24 dev eth0; ip link set eth0 up"
}

# power_off NAME - all its processes end at once, and no packet tells of it.
power_off()
{
    ip link del "$1" # first: the kernel would tell their peers
    kill -9 "$(cat "$SCRATCH/hosts/$1.pid")"
}

# cut_link NAME, mend_link NAME - its link to the bridge: while it is down, packets vanish.
cut_link()
{
    ip link set "$1" down
}

mend_link()
{
    ip link set "$1" up
}

# what_runs_on NAME... - processes of these hosts but for their first ones, a line each: host,
# process, command.
what_runs_on()
{
    local name init space process
    for name; do
        init=$(cat "$SCRATCH/hosts/$name.pid")
        space=$(readlink "/proc/$init/ns/pid")
        find /proc -mindepth 3 -maxdepth 3 -path '/proc/[0-9]*/ns/pid' -printf '%l/%p\n' \
            2> /dev/null |
            while IFS=/ read -r there _ _ process _; do
                [[ $there == "$space" && $process != "$init" ]] || continue
                grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$process/status" &&
                    echo "$name $process $(tr '\0' ' ' < "/proc/$process/cmdline" | cut -c 1-80)"
            done
    done
}

# expect_nothing_on WHAT SECONDS NAME... - none of these hosts has a process left but for its first
# one, at most so many seconds from now.
expect_nothing_on()
{
    local what=$1 end=$((SECONDS + $2)) left
    shift 2
    while :; do
        left=$(what_runs_on "$@")
        [[ -n $left ]] || return 0
        ((SECONDS < end)) || break
        sleep 0.2
    done
    broken "$what: still running:"
    sed 's/^/    /' <<< "$left"
}
