#!/usr/bin/env bash
# gpu_check.sh correct|speed|train|efficientnet OUTDIR - everything that only a GPU can show, each
# part in under 9 minutes, the most valuable first.
#
#   correct   whole networks' gradients against the CPU backend, every op and precision against the
#             reference, cuDNN's batch norms too, whole runs (graph against eager, resume, two ranks
#             on one GPU, fp16 and clipping), NCCL, compute-sanitizer
#   speed     ResNet-50 at 224 px: images/s in bf16 and fp16 against PyTorch in the same run, where
#             the step's time goes against measured ceilings, with batch norms by our kernels, by
#             cuDNN and by the faster, JPEG files end to end (.gpu/images.tar: a folder of real
#             ones, else made here), batch sizes
#   efficientnet  EfficientNet-B0, B4 and B7 at their own sizes: images/s in bf16 against PyTorch in
#                 the same run, where the step's time goes
#   train     ResNet-20 on CIFAR-10 JPEGs, 60 epochs in fp32, bf16 and fp16
#             (.gpu/cifar10-jpeg.tar.gz, or CIFAR=DIR with train/ and test/)
#
# Where scripts/gpu_pack.sh has filled .gpu/, that is used; else the binaries of `make build`. Each
# check has a time limit of its own, so one that hangs costs only that. All that was found is in
# OUTDIR/gpu_check_PART.tar.gz, which is written anew after every check; the summary is printed, and
# its last line is "N passed, N failed, N skipped".
#
#   REHEARSE=1       on a machine without a GPU: the emulated build (make EMU=1 build), PyTorch on
#                    the CPU, tiny shapes. Shows that every line here runs, nothing else.
#   SECONDS_MAX=520  when no further check is begun, and those under way are ended
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
part=${1:-} out=${2:-}
case $part in
    correct | speed | train | efficientnet) ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
        exit 64
        ;;
esac
[[ -n $out ]] || { echo "gpu_check: name a folder for the results" >&2; exit 64; }
mkdir -p "$out" || exit 74
out=$(cd "$out" && pwd)
scratch=$PWD/build/gpu_check # large and short-lived; only $work goes into the archive
work=$scratch/$part
rm -rf "$scratch"
mkdir -p "$work" || exit 74
rehearse=${REHEARSE:-}
deadline=$((SECONDS + ${SECONDS_MAX:-520})) passed=0 failed=0 skipped=0
patience=1 # factor of all time limits
[[ -z $rehearse ]] || patience=4
export PYTHONUNBUFFERED=1 PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer may lie there
# Open MPI refuses root, and ranks without a core each, unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# Ranks are started here alone: else mpirun ends where there is neither ssh nor rsh.
export OMPI_MCA_plm=isolated

# ---- what is there ----

# Not every machine has xz, but this script needs Python anyway.
unpack() { # FILE.tar.xz FOLDER [tar's options]
    python3 -c '
import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1" | tar -xf - -C "$2" "${@:3}"
}

if [[ -f .gpu/bin.tar.xz ]]; then
    if [[ -z $rehearse || -n ${UNPACK:-} ]]; then
        { unpack .gpu/libraries.tar.xz / --skip-old-files && ldconfig; } ||
            echo "gpu_check: libraries may be missing" >&2
    fi
    unpack .gpu/bin.tar.xz "$scratch" || exit 74
    bin=$scratch/bin
else
    bin=$PWD/build${rehearse:+/emu}
    [[ -n $rehearse ]] || cp -f convoy build/convoy
fi
convoy=$bin/convoy
for b in convoy check unit make_shapes make_commcheck make_ckptdiff make_jsonlcheck; do
    [[ -x $bin/$b ]] || {
        echo "gpu_check: $bin/$b is not there; see scripts/gpu_pack.sh" >&2
        exit 78
    }
done
export CONVOY=$convoy EMU_CONVOY=$convoy CONVOY_TOOLS=$bin

# PyTorch's own copies of cuDNN, cuBLASLt and NCCL, so that both sides run on the same ones.
wheels=$(python3 -c '
import glob, nvidia
print(":".join(sorted(d for p in nvidia.__path__ for d in glob.glob(p + "/*/lib"))))' 2> /dev/null)
[[ -z $wheels || -n $rehearse ]] ||
    export LD_LIBRARY_PATH=$wheels${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# ---- checks ----

say() { echo "$*" | tee -a "$work/summary.txt"; }

save() {
    tar -czf "$scratch/save.tar.gz" -C "$scratch" "$part" &&
        cp "$scratch/save.tar.gz" "$out/gpu_check_$part.tar.gz"
}

# check NAME SECONDS COMMAND...: runs it with its own time limit inside the deadline; its output is
# NAME.log, the end of it is shown if it fails.
check() {
    local name=$1 limit=$2 left=$((deadline - SECONDS)) start=$SECONDS status
    shift 2
    if ((left < 10)); then
        say "NOT RUN  $name: no time left"
        ((failed += 1))
        return 1
    fi
    limit=$((patience * limit))
    ((limit < left)) || limit=$left
    run_limited "$limit" "$@" > "$work/$name.log" 2>&1 < /dev/null
    status=$?
    if ((status == 0)); then
        ((passed += 1))
        say "PASSED   $name ($((SECONDS - start)) s)"
    else
        ((failed += 1))
        say "FAILED   $name: status $status after $((SECONDS - start)) s"
        grep -E 'FAIL|error|Error|broken' "$work/$name.log" | head -n 6 | cut -c 1-300 |
            sed 's/^/    /'
        tail -n 8 "$work/$name.log" | cut -c 1-300 | sed 's/^/    /'
    fi
    save
    return "$status"
}

# A program, or a function of this script: then in a shell of its own,
# so that the limit holds for all it starts.
run_limited() {
    local limit=$1
    shift
    if [[ $(type -t "$1") == function ]]; then timeout -k 5 "$limit" bash -c '"$@"' limited "$@"
    else timeout -k 5 "$limit" "$@"; fi
}

# ---- correct ----

op_check() { "$CONVOY_TOOLS/check" --backend="cuda:$1" "${@:2}"; }

# sanitize TOOL OP - the cases of an op; the tool's own exit status says whether it found anything.
sanitize() {
    compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9 "$CONVOY_TOOLS/check" \
        --backend=cuda:bf16 --op="$2"
}

part_correct() {
    local few=() op
    [[ -n $rehearse ]] && few=(--op=grad_)
    check networks 60 "$bin/unit" --jobs=1 --filter=network_gradients --timeout=$((50 * patience))
    cat "$work/networks.log"
    for precision in bf16 fp32 fp16 tf32; do
        check "ops_$precision" 75 op_check "$precision" "${few[@]}"
    done
    # It compiles an engine for each shape, a second or so.
    check norms_bf16 75 op_check bf16 --op=batchnorm --cudnn-norms
    check unit_cuda 75 "$bin/unit" --jobs=1 --filter=cuda --without=network_gradients \
        --timeout=$((40 * patience))
    for script in cuda_train cuda_ranks cuda_scale cuda_fuse cuda_norms; do
        check "$script" 100 env E2E_LIMIT_S=$((95 * patience)) scripts/e2e.sh "tests/e2e/$script.sh"
    done
    for precision in fp16 fp32; do
        check "norms_$precision" 75 op_check "$precision" --op=batchnorm --cudnn-norms
    done
    check nccl_alone 30 "$bin/make_commcheck" device
    check staged_2_ranks 30 mpirun -n 2 "$bin/make_commcheck" device
    if command -v compute-sanitizer > /dev/null; then
        for op in batchnorm pool2d softmax_xent update grad_ linear; do
            check "memcheck_$op" 40 sanitize memcheck "$op"
        done
        for op in batchnorm softmax_xent grad_; do
            check "racecheck_$op" 40 sanitize racecheck "$op"
        done
        for op in batchnorm pool2d; do check "initcheck_$op" 40 sanitize initcheck "$op"; done
        for op in input global_avgpool subsample activation add scale finite_check conv2d; do
            check "memcheck_$op" 30 sanitize memcheck "$op"
        done
    else
        say "skip compute-sanitizer: not installed"
        ((skipped += 1))
    fi
}

# ---- speed ----

# network NAME BATCH SIZE: sets net, the arguments of a benchmark.
# A rehearsal takes one that plain loops can run.
network() {
    if [[ -z $rehearse ]]; then
        net=(--model "$1" --batch "$2" --size "$3" --device cuda --steps 20)
    else
        net=(--model "${1/#resnet50/resnet18}" --batch 2 --size 32 --device cpu --steps 1
            --set model.name=mlp --set data.image_size=8 --set data.eval_resize=8)
    fi
    net+=(--convoy "$convoy" --plan-cache "$scratch/plans")
}

# Class folders of JPEGs of about ImageNet's size: links to those of .gpu/images.tar,
# else made here.
images_folder() {
    local to=$1 i=0 copy file
    if [[ ! -f .gpu/images.tar ]]; then
        "$CONVOY_TOOLS/make_shapes" "$to" --train "${2:-512}" --val 8 --size 400
        return
    fi
    mkdir -p "$to/originals" && tar -xf .gpu/images.tar -C "$to/originals" || return 74
    for class in 0 1 2 3 4 5 6 7 8 9; do mkdir -p "$to/train/$class"; done
    for copy in {1..20}; do
        while read -r file; do
            ln -s "$file" "$to/train/$((i++ % 10))/$copy-$(basename "$file")"
        done < <(find "$to/originals" -type f -iname '*.jp*g' | sort)
    done
    ((i > 0))
}

train_from_files() { # the first epoch warms up
    local scratch=$1 rehearse=$2
    local settings=(--set train.precision=bf16 --set train.batch_per_rank=256 --set train.epochs=6)
    [[ -n $rehearse ]] && settings=(--set train.precision=bf16 --set train.batch_per_rank=2
        --set train.max_steps=3 --set train.epochs=2 --set model.name=mlp
        --set data.image_size=8 --set data.eval_resize=8)
    images_folder "$scratch/jpegs" ${rehearse:+2} &&
        "$CONVOY" train configs/resnet50-imagenet.yaml --set data.train="$scratch/jpegs/train" \
            --set data.val= --set run.dir="$scratch/files" \
            --set device.plan_cache="$scratch/plans" --set device.backend=cuda \
            --set checkpoint.every_epochs=0 "${settings[@]}"
}

# Median rate and mean wait of the steps after the first epoch,
# and the share of the rate on synthetic images.
tell_files() {
    local synthetic
    synthetic=$(awk '$1 == "images_per_s" { print $2 }' "$work/nodes_bf16.log" 2> /dev/null)
    awk 'index($0, "\"event\":\"step\"") && match($0, /"epoch":[0-9]+/) &&
            substr($0, RSTART + 8, RLENGTH - 8) > 0 {
            n = split("images_per_s step_ms data_wait_ms", key, " ")
            for (k = 1; k <= n; k++) {
                match($0, "\"" key[k] "\":[^,}]+"); skip = length(key[k]) + 3
                printf "%s ", substr($0, RSTART + skip, RLENGTH - skip)
            }
            print "" }' "$work/from_files.jsonl" 2> /dev/null | sort -g |
        awk -v synthetic="${synthetic:-0}" '{ rate[NR] = $1; step += $2; wait += $3 }
            END {
                if (NR == 0) exit
                median = rate[int((NR + 1) / 2)]
                printf "from JPEG files: %.0f images/s (median of %d steps), ", median, NR
                printf "%.1f %% of %.0f on synthetic images; ",
                       (synthetic > 0 ? 100 * median / synthetic : 0), synthetic
                printf "data wait %.2f ms of %.2f ms a step\n", wait / NR, step / NR
            }'
}

part_speed() {
    local batches=(64 128 512)
    [[ -z $rehearse ]] || batches=(1)
    network resnet50 256 224
    check nodes_bf16 75 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --json "$work/nodes_bf16.json"
    cat "$work/nodes_bf16.log" 2> /dev/null
    check peers_bf16 120 python3 scripts/bench_gpu_peers.py "${net[@]}" --precision bf16 \
        --alternations 3 --modes eager graph --json "$work/peers_bf16.json"
    cat "$work/peers_bf16.log" 2> /dev/null
    # The choice cudnn compiles some thirty engines, which auto finds in the plan cache.
    for norms in own cudnn auto; do
        check "bf16_norms_$norms" 90 python3 scripts/bench_gpu_nodes.py "${net[@]}" \
            --precision bf16 --rate-only --set device.batchnorm=$norms
    done
    tail -qn 1 "$work"/bf16_norms_*.log 2> /dev/null
    check from_files 90 train_from_files "$scratch" "$rehearse"
    cp "$scratch/files/metrics.jsonl" "$work/from_files.jsonl" && say "    $(tell_files)"
    for fuse in none all; do
        check "fp16_fuse_$fuse" 45 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision fp16 \
            --rate-only --set device.fuse=$fuse
    done
    cat "$work"/fp16_fuse_*.log
    check nodes_fp16 45 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision fp16 \
        --json "$work/nodes_fp16.json"
    cat "$work/nodes_fp16.log" 2> /dev/null
    check peers_fp16 90 python3 scripts/bench_gpu_peers.py "${net[@]}" --precision fp16 \
        --alternations 2 --modes eager graph --json "$work/peers_fp16.json"
    cat "$work/peers_fp16.log" 2> /dev/null
    check peers_compiled 200 python3 scripts/bench_gpu_peers.py "${net[@]}" --precision bf16 \
        --alternations 2 --modes compile autotune --json "$work/peers_compiled.json"
    cat "$work/peers_compiled.log" 2> /dev/null
    check eager_bf16 30 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --rate-only --set device.cuda_graph=false
    for batch in "${batches[@]}"; do
        check "bf16_batch_$batch" 40 python3 scripts/bench_gpu_nodes.py "${net[@]}" \
            --precision bf16 --rate-only --batch "$batch"
    done
    check tf32 60 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision tf32 --rate-only
    tail -qn 1 "$work"/eager_bf16.log "$work"/bf16_batch_*.log "$work"/tf32.log 2> /dev/null
}

# ---- efficientnet ----

part_efficientnet() {
    local name
    for row in "efficientnet_b0 256 224" "efficientnet_b4 64 380" "efficientnet_b7 16 600"; do
        # shellcheck disable=SC2086 # a row is words
        network $row
        name=${row%% *}
        check "nodes_$name" 60 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
            --json "$work/nodes_$name.json"
        check "peers_$name" 110 python3 scripts/bench_gpu_peers.py "${net[@]}" --precision bf16 \
            --alternations 2 --modes eager graph compile --json "$work/peers_$name.json"
        # The choice cudnn compiles some engines, which auto finds in the plan cache.
        [[ $name == efficientnet_b0 ]] && for depthwise in own cudnn auto; do
            check "depthwise_$depthwise" 60 python3 scripts/bench_gpu_nodes.py "${net[@]}" \
                --precision bf16 --rate-only --set device.depthwise=$depthwise
        done
        cat "$work/nodes_$name.log" "$work/peers_$name.log" 2> /dev/null
    done
}

# ---- train ----

train_cifar() { # PRECISION CIFAR SCRATCH REHEARSE
    local settings=(--set train.epochs=60 --set train.batch_per_rank=128 --set train.eval_every=5)
    [[ -n $4 ]] && settings=(--set train.epochs=1 --set train.batch_per_rank=2
        --set train.max_steps=3 --set model.name=mlp --set data.image_size=8
        --set data.eval_resize=8)
    "$CONVOY" train configs/resnet20-cifar10.yaml --set data.train="$2/train" \
        --set data.val="$2/test" --set run.dir="$3/cifar_$1" \
        --set device.backend=cuda --set train.precision="$1" \
        --set device.plan_cache="$3/plans" "${settings[@]}"
}

top1() {
    awk 'index($0, "\"event\":\"eval\"") && match($0, /"top1":[^,}]+/) {
            v = 100 * substr($0, RSTART + 7, RLENGTH - 7) }
        END { print v }' "$work/cifar_$1.jsonl"
}

accuracies() { # at least 91 %, and 16 bits within 0.5 points of fp32
    echo "top-1: fp32 $1 %, bf16 $2 %, fp16 $3 %"
    awk -v a="$1" -v b="$2" -v c="$3" \
        'BEGIN { exit !(a >= 91 && b >= 91 && c >= 91 && b >= a - 0.5 && c >= a - 0.5) }'
}

part_train() {
    if [[ -z ${CIFAR:-} && -n $rehearse ]]; then
        CIFAR=$scratch/cifar10
        "$bin/make_shapes" "$CIFAR" --train 2 --val 1 --size 32 > /dev/null &&
            mv "$CIFAR/val" "$CIFAR/test" || exit 74
    elif [[ -z ${CIFAR:-} ]]; then
        CIFAR=$scratch/cifar10
        [[ -f .gpu/cifar10-jpeg.tar.gz ]] || {
            echo "gpu_check: no .gpu/cifar10-jpeg.tar.gz; name the folder with CIFAR=DIR" >&2
            exit 64
        }
        tar -xzf .gpu/cifar10-jpeg.tar.gz -C "$scratch" || exit 74
    fi
    for precision in bf16 fp32 fp16; do
        check "cifar_$precision" 165 train_cifar "$precision" "$CIFAR" "$scratch" "$rehearse"
        cp "$scratch/cifar_$precision/metrics.jsonl" "$work/cifar_$precision.jsonl" &&
            say "    $precision: top-1 $(top1 "$precision") %"
    done
    check accuracies 10 accuracies "$(top1 fp32)" "$(top1 bf16)" "$(top1 fp16)"
    cat "$work/accuracies.log"
}

export -f op_check sanitize images_folder train_from_files train_cifar accuracies
nvidia-smi > "$work/nvidia-smi.txt" 2>&1
grep -m 1 -E 'NVIDIA [A-Z]+[0-9]' "$work/nvidia-smi.txt"
"$convoy" --version | tee "$work/version.txt"
part_"$part"
save
rm -rf "${scratch:?}"/{bin,jpegs,files,cifar10,plans,cifar_*}
echo "==== $part"
cat "$work/summary.txt"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
