#!/usr/bin/env bash
# try_image.sh DIR - builds the image's target cpu and runs, without Kubernetes or ECS, what
# scripts/k8s/train-cpu.yaml and the ECS task definitions would start in it: each pod is the image's
# files in namespaces of its own (processes, network, mounts, host name), joined by a bridge.
#
# Shows that image, user, keys, sshd, hosts script, launcher and drain work together: two workers
# and a launcher train; one worker is drained, ended and comes back, as a deleted pod does; the run
# has to go on from the checkpoint that draining left, with the other worker, and end with 0. For a
# person, as root, with the packages buildah debootstrap iproute2 openssh-client; DIR takes some GB
# and is kept, so that a second call builds less. Ends with "N passed, N failed, N skipped".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
if (($# != 1 || EUID != 0)); then
    echo "usage, as root: scripts/docker/try_image.sh DIR" >&2
    exit 64
fi
mkdir -p "$1"
work=$(realpath "$1")

# ---- first, outside: the image and its files ----
if [[ -z ${TRY_IMAGE_INSIDE:-} ]]; then
    for program in buildah debootstrap ip ssh-keygen; do
        command -v "$program" > /dev/null || {
            echo "try_image: $program is not installed" >&2 && exit 78
        }
    done
    export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
    store=(--root "$work/storage" --runroot "$work/runroot")
    if [[ ! -e $work/base.done ]]; then
        debootstrap --variant=minbase bookworm "$work/base" > "$work/debootstrap.log" || exit 78
        container=$(buildah "${store[@]}" from scratch) &&
            buildah "${store[@]}" add -q "$container" "$work/base" / > /dev/null &&
            buildah "${store[@]}" commit -q \
                --rm "$container" localhost/debian:12-slim > /dev/null || exit 78
        touch "$work/base.done"
    fi
    buildah "${store[@]}" bud --layers --network host --format docker \
        --build-arg BASE_CPU=localhost/debian:12-slim --target cpu \
        --ignorefile scripts/docker/Dockerfile.dockerignore -f scripts/docker/Dockerfile \
        -t localhost/convoy:cpu . > "$work/build.log" 2>&1 ||
        { tail "$work/build.log" && exit 70; }
    container=$(buildah "${store[@]}" from localhost/convoy:cpu) || exit 70
    rm -rf "$work/image"
    cp -a "$(buildah "${store[@]}" mount "$container")" "$work/image" || exit 74
    buildah "${store[@]}" rm "$container" > /dev/null
    make -s tools || exit 70
    build/make_yamlpaths scripts/k8s/train-cpu.yaml scripts/docker/ecs-*.json > "$work/values" ||
        exit 65
    TRY_IMAGE_INSIDE=1 exec unshare --mount --net --pid --fork --kill-child \
        --mount-proc bash "$0" "$work"
fi

# ---- then, inside namespaces in which nothing outlives this script ----
passed=0 failed=0
# check WHAT COMMAND...
check() {
    local what=$1
    shift
    if "$@"; then
        echo "ok   $what"
        ((passed += 1))
    else
        echo "FAIL $what"
        ((failed += 1))
    fi
}

# words FILE PATH - the items of a sequence of a manifest, a line each.
words() {
    awk -v path="$1:0 $2[" 'index($0, path) == 1 { sub(/^[^=]*=/, ""); print }' "$work/values"
}

# pod NAME NUMBER COMMAND... - starts it with the address 10.77.0.NUMBER, as the user 1000 in an
# environment of its own; output in $run/NAME.out.
pod() {
    local name=$1 number=$2 shell init tries
    shift 2
    mkdir -p "$run/$name".{root,upper,work}
    # shellcheck disable=SC2016 # the inner shell's words
    setsid unshare --fork --kill-child --pid --net --uts --ipc --mount --mount-proc sh -c '
        image=$1 run=$2 name=$3 root=$2/$3.root
        shift 3
        hostname "$name" && mount --make-rprivate / &&
            mount -t overlay -o \
                "lowerdir=$image,upperdir=$run/$name.upper,workdir=$run/$name.work" \
                overlay "$root" &&
            mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" &&
            mount --rbind /dev "$root/dev" && mount -t tmpfs shm "$root/dev/shm" || exit 78
        mkdir -p "$root/data" "$root/etc/mpi" "$root/home/mpiuser/.ssh"
        mount --bind "$run/data" "$root/data"
        [ ! -e "$run/mpi" ] || {
            mount --bind "$run/mpi" "$root/etc/mpi" &&
                mount --bind "$run/keys" "$root/home/mpiuser/.ssh"
        }
        chown 1000:1000 "$root/home/mpiuser/.ssh"
        cp "$run/hosts" "$root/etc/hosts"
        until ip -o addr show eth0 2> /dev/null | grep -q 10.77; do sleep 0.1; done
        exec chroot --userspec=1000:1000 "$root" env -i HOME=/home/mpiuser \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp \
            OMPI_MCA_btl_vader_single_copy_mechanism=none \
            SSH_KEY="$(cat "$run/key" 2> /dev/null)" \
            sh -c "cd && exec \"\$@\"" pod "$@"' \
        pod "$work/image" "$run" "$name" "$@" > "$run/$name.out" 2>&1 < /dev/null &
    shell=$!
    for ((tries = 0; tries < 100; tries++)); do
        read -r init _ < "/proc/$shell/task/$shell/children" && [[ -n $init ]] && break
        sleep 0.1
    done
    echo "$init" > "$run/$name.pid"
    ip link add "pod$number" type veth peer name eth0 netns "$init"
    ip link set "pod$number" master pods up
    nsenter -t "$init" \
        -n sh -c "ip link set lo up; ip addr add 10.77.0.$number/24 dev eth0; ip link set eth0 up"
}

# inside NAME COMMAND... - as kubectl exec.
inside() {
    local name=$1
    shift
    nsenter -t "$(cat "$run/$name.pid")" -m -n -p -u \
        -i chroot --userspec=1000:1000 "$run/$name.root" \
        env -i HOME=/home/mpiuser PATH=/usr/local/bin:/usr/bin:/bin "$@"
}

alive() {
    grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$run/$1.pid")/status"
}

steps() {
    awk '/"event":"step"/ { n++ } END { print n + 0 }' "$run/data/runs/$1/metrics.jsonl" \
        2> /dev/null || echo 0
}

# begin NAME - a folder for a run, with what all its pods see.
begin() {
    run=$work/$1
    rm -rf "$run"
    mkdir -p "$run/data/runs"
    chown 1000:1000 "$run/data/runs"
    ssh-keygen -q -t rsa -b 3072 -N '' -f "$run/key"
}

# drained RUN DRAIN... - waits for training, ends the pod worker-0 as clusters do, DRAIN and then
# TERM to its first process, starts it again and waits for the end of the launcher;
# checks all of it.
drained() {
    local name=$1 tries drain=("${@:2}")
    for ((tries = 0; tries < 1200; tries++)); do
        (($(steps "$name") >= 5)) && break
        sleep 0.1
    done
    check "$name: trains" test "$(steps "$name")" -ge 5
    check "$name: ${drain[*]}" inside worker-0 "${drain[@]}"
    kill -TERM "$(cat "$run/worker-0.pid")"
    for ((tries = 0; tries < 1200; tries++)); do
        alive worker-0 || break
        sleep 0.1
    done
    check "$name: the pod ends" eval '! alive worker-0'
    mv "$run/worker-0.out" "$run/worker-0.first.out"
    pod worker-0 2 "${worker[@]}"
    for ((tries = 0; tries < 3000; tries++)); do
        alive launcher || break
        sleep 0.1
    done
    check "$name: all ranks left with 75, a checkpoint saved" grep -q '"event":"exit".*"code":75' \
        "$run/data/runs/$name/launch.jsonl"
    check "$name: goes on with the other worker" \
        grep -q '"event":"run","time":[0-9.]*,"attempt":2,"ranks":2' \
        "$run/data/runs/$name/launch.jsonl"
    check "$name: resumes" grep -q '"event":"resume"' "$run/data/runs/$name/metrics.jsonl"
    check "$name: the run ends with 0" grep -q '"event":"done".*"code":0' \
        <(tail -n 1 "$run/data/runs/$name/launch.jsonl")
    check "$name: ends at the last step" grep -q '"event":"done".*"reason":"completed"' \
        <(tail -n 1 "$run/data/runs/$name/metrics.jsonl")
    for pod in worker-0 worker-1; do kill -9 "$(cat "$run/$pod.pid")" 2> /dev/null; done
    sleep 1
}

ip link set lo up
ip link add pods type bridge
ip link set pods up
small=(--set data.format=synthetic --set data.synthetic_images=4096 --set model.classes=10
    --set device.backend=cpu --set train.batch_mode=global
    --set train.global_batch=128 --set train.epochs=2)

# Kubernetes: keys, host file and hosts script as the MPI operator mounts them.
file=scripts/k8s/train-cpu.yaml
begin kubernetes
mkdir -p "$run/keys" "$run/mpi"
cp "$run/key" "$run/keys/id_rsa" && cp "$run/key.pub" "$run/keys/authorized_keys" && rm "$run/key"
chmod 640 "$run/keys/id_rsa" && chgrp 1000 "$run/keys/id_rsa"
{
    echo 127.0.0.1 localhost
    echo 10.77.0.1 launcher
    for i in 0 1; do echo "10.77.0.$((i + 2)) worker-$i.job.default.svc worker-$i"; done
} > "$run/hosts"
printf '#!/bin/sh\necho worker-0.job.default.svc\necho worker-1.job.default.svc\n' \
    > "$run/mpi/discover_hosts.sh"
chmod 755 "$run/mpi/discover_hosts.sh"
printf 'worker-%d.job.default.svc slots=2\n' 0 1 > "$run/mpi/hostfile"
mapfile -t worker < <(words $file 'spec.mpiReplicaSpecs.Worker.template.spec.containers[0].command')
mapfile -t launcher < <(words $file \
    'spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command')
mapfile -t drain < <(words $file \
    'spec.mpiReplicaSpecs.Worker.template.spec.containers[0].lifecycle.preStop.exec.command')
pod worker-0 2 "${worker[@]}"
pod worker-1 3 "${worker[@]}"
pod launcher 1 "${launcher[@]}"
drained resnet20-cpu "${drain[@]}"

# ECS: the key from the environment, workers found by their common name; a small run in the place of
# ImageNet's. TERM, which ECS would send, drains.
begin ecs
{
    echo 127.0.0.1 localhost
    echo 10.77.0.1 launcher
    for i in 0 1; do echo "10.77.0.$((i + 2)) workers.convoy worker-$i"; done
} > "$run/hosts"
mapfile -t worker < <(words scripts/docker/ecs-worker.json 'containerDefinitions[0].command')
mapfile -t launcher < <(words scripts/docker/ecs-launcher.json 'containerDefinitions[0].command')
config=/usr/local/share/convoy/configs/resnet20-cifar10.yaml
launcher[2]="${launcher[2]%% --slots*} --slots 2 -- train $config ${small[*]}"
launcher[2]+=" --set run.dir=/data/runs/ecs"
pod worker-0 2 "${worker[@]}"
pod worker-1 3 "${worker[@]}"
pod launcher 1 "${launcher[@]}"
drained ecs true
echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
