# common.sh, sourced before, sets CONVOY, SCRATCH and sets.
# shellcheck shell=bash disable=SC2034,SC2154
#
# minislurm.sh - a Slurm of several nodes on this machine, for tests: sourced. Listens on loopback
# only; everything of it lies in one folder.
#
# All "nodes" share one host name, so jobs must use Open MPI's TCP transport (shared memory segments
# of two nodes would collide), and each slurmd has a mount namespace of its own because all of them
# would use one PMIx folder.

# slurm_missing - prints what keeps it from running here; nothing if it can.
slurm_missing()
{
    local program
    PATH=$PATH:/usr/sbin
    for program in slurmctld slurmd sbatch scontrol unshare; do
        command -v "$program" > /dev/null || {
            echo "$program is not installed" \
                "(packages slurmctld slurmd slurm-client slurm-wlm-basic-plugins)" &&
                return
        }
    done
    slurm_unshare=()
    ((EUID == 0)) || slurm_unshare=(-U --map-current-user --keep-caps)
    unshare "${slurm_unshare[@]}" -m true 2> /dev/null ||
        echo "mount namespaces are not allowed here"
}

slurm_start_node()
{
    mkdir -p "$slurm/spool/$1/pmix"
    # shellcheck disable=SC2016 # the inner shell's words
    unshare "${slurm_unshare[@]}" -m sh \
        -c 'mount --bind "$1/spool/$2/pmix" "$1/pmix" && exec slurmd -N "$2"' slurmd "$slurm" "$1"
}

# slurm_up FOLDER NODES - false if it does not come up within ten seconds or so. FOLDER must not
# exist; its path must be short.
slurm_up()
{
    local nodes=$2 port=$((20000 + RANDOM % 20000)) me try i
    slurm=$1
    me=$(id -un)
    mkdir -p "$slurm"/{state,run,log,pmix}
    export PATH=$PATH:/usr/sbin SLURM_CONF=$slurm/slurm.conf OMPI_MCA_btl=self,tcp
    cat > "$SLURM_CONF" << END
ClusterName=mini
SlurmctldHost=localhost
SlurmctldPort=$port
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthInfo=cred_expire=5
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool/%n
SlurmctldPidFile=$slurm/run/ctld.pid
SlurmdPidFile=$slurm/run/%n.pid
SlurmctldLogFile=$slurm/log/ctld
SlurmdLogFile=$slurm/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MailProg=/bin/true
NodeName=n[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 \
Port=[$((port + 1))-$((port + nodes))] CPUs=4 RealMemory=500
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10
PartitionName=cancels Nodes=ALL State=UP PriorityTier=1 GraceTime=30 PreemptMode=CANCEL
END
    echo "PMIxCliTmpDirBase=$slurm/pmix" > "$slurm/mpi.conf"
    slurmctld || return 1
    for ((i = 1; i <= nodes; i++)); do slurm_start_node "n$i" || return 1; done
    for ((try = 0; try < 120; try++)); do
        [[ $(sinfo -h -t idle -o %D 2> /dev/null) == "$nodes" ]] && return
        sleep 0.25
    done
    return 1
}

slurm_down()
{
    local file
    scancel -u "$(id -un)" 2> /dev/null
    sleep 1
    for file in "$slurm"/run/*.pid; do [[ -s $file ]] && kill "$(cat "$file")" 2> /dev/null; done
    # A step daemon that had lost its slurmd waits for ever.
    grep -lzxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2> /dev/null |
        while IFS=/ read -r _ _ process _; do
            [[ $(cat "/proc/$process/comm" 2> /dev/null) == slurmstepd ]] && kill -9 "$process"
        done
}

# slurm_preempts on|off - off is Slurm's default, with which it prints no PreemptTime. Jobs stay.
slurm_preempts()
{
    local type=none mode=OFF
    [[ $1 == off ]] || type=partition_prio mode=REQUEUE
    sed -i "s,^PreemptType=.*,PreemptType=preempt/$type,; s,^PreemptMode=.*,PreemptMode=$mode," \
        "$SLURM_CONF"
    scontrol reconfigure
}

# slurm_state JOB - RUNNING, PENDING, ...
slurm_state()
{
    scontrol show job "$1" 2> /dev/null | sed -nE 's/.*JobState=([A-Z_]+).*/\1/p'
}

# slurm_wait JOB STATE SECONDS
slurm_wait()
{
    local end=$((SECONDS + $3))
    until [[ $(slurm_state "$1") == "$2" ]]; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}

# slurm_begin NODES - what both scripts begin with: skips (77) where Slurm cannot run; data, config,
# a Slurm that goes when the script does.
slurm_begin()
{
    local why
    have_mpi || { echo "built without Open MPI" && exit 77; }
    why=$(slurm_missing)
    [[ -z $why ]] || { echo "$why" && exit 77; }
    slurm_unshare=()
    ((EUID == 0)) || slurm_unshare=(-U --map-current-user --keep-caps)
    slurm_folder=$(mktemp -d /tmp/slurm-XXXXXX) # socket paths have a limit
    trap 'slurm_down; rm -rf "$slurm_folder"' EXIT
    if ! slurm_up "$slurm_folder/s" "$1"; then
        tail -n 3 "$slurm"/log/* 2> /dev/null
        echo "Slurm does not come up here"
        exit 77
    fi
    make_data "$SCRATCH/data" 12 1
    make_config
}

# slurm_end - what scripts end with. A rank that srun starts may crash in MPI_Init, now and then on
# a busy machine (Open MPI 4.1.4, PMIx 4.2.2: a peer's message comes before there is anybody to take
# it; open-mpi/ompi#12495 has the like), before a word of convoy's. Then all of the script is done
# once more, so that what fails for another reason fails still, and so does a second crash.
slurm_end()
{
    if ((failed)) && [[ -z ${CRASHED_BEFORE:-} ]] && awk '
        FNR == 1 || /^train.sbatch: job/ { silent = 1 }
        !/^(srun|train.sbatch|slurmstepd)/ { silent = 0 }
        /^srun: error: .*Segmentation fault/ && silent { crashed = 1 }
        END { exit !crashed }' "$SCRATCH"/*.log; then
        echo "not tested: srun, the first time: Open MPI crashed in MPI_Init"
        slurm_down
        rm -rf "$slurm_folder" "${SCRATCH:?}"/*
        unset SLURM_CONF
        CRASHED_BEFORE=1 exec bash "$0"
    fi
    exit "$failed"
}

# submit RUN SBATCH_OPTION... -- KEY=VALUE... - sets job; the job's log is $SCRATCH/RUN.log.
submit()
{
    local name=$1 options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    settings "$name" "${@:2}"
    job=$(CONVOY=$CONVOY RANKS=1 sbatch --parsable --overcommit \
        --output="$SCRATCH/$name.log" "${options[@]}" scripts/slurm/train.sbatch "${sets[@]}")
    pid=$$ # wait_for_step looks whether it is there
}

# starts RUN - how often the job's script has begun, and on how many nodes each time.
starts()
{
    sed -nE 's/^train.sbatch: job .* start [0-9]+, ([0-9]+) nodes .*/\1/p' "$SCRATCH/$1.log" \
        2> /dev/null | xargs
}

# wait_for_starts RUN TEXT SECONDS
wait_for_starts()
{
    local end=$((SECONDS + $3))
    until [[ $(starts "$1") == "$2" ]]; do
        if ((SECONDS >= end)); then
            broken "$1: starts on '$(starts "$1")' nodes, expected '$2';" \
                "the job is $(slurm_state "${job:-}")"
            sed 's/^/    /' "$SCRATCH/$1.log"
            return
        fi
        sleep 0.2
    done
}
