#!/usr/bin/env bash
# gpu_check.sh correct|speed|train OUTDIR - everything that only a GPU can show, in three commands,
# each under nine and a half minutes, the most valuable first in each.
#
#   correct   a step of ResNet-50 without graphs; whole networks' gradients against the CPU backend,
#             16-bit operations against the reference; ResNet-50 at 224 px against PyTorch, loss and
#             every gradient; ten steps twice; where the step's time goes, by layer and against
#             measured ceilings; ncu; the other operations, whole runs (graph against eager,
#             resume); two ranks on one GPU
#   speed     ResNet-50 at 224 px in bf16 and fp16: images/s against PyTorch in turn, and settings
#             against each other
#   train     JPEG files end to end (.gpu/images.tar: a folder of real ones, else made here),
#             EfficientNet-B0 against PyTorch, ResNet-20 on CIFAR-10 JPEGs in bf16, fp32 and fp16
#             (.gpu/cifar10-jpeg.tar.gz, or CIFAR=DIR with train/ and test/), compute-sanitizer
#   branches  a check that passes, one that fails, one that hangs, one that is skipped: shows that
#             this script tells them apart
#
# Each begins with the GPU's properties. Where scripts/gpu_pack.sh has filled .gpu/, that is used;
# else the binaries of `make build`. Each check has a time limit of its own, so one that hangs costs
# only that. What was found is in OUTDIR/gpu_check_PART.tar.gz, the plans of cuDNN that were chosen
# in OUTDIR/gpu_plans_PART.tar.gz; both are written anew after every check, and scripts/gpu_learn.py
# reads them. Plans in .gpu/plans or configs/gpus are taken, so that nothing is timed twice. The
# summary is printed, and its last line is "N passed, N failed, N skipped".
#
#   REHEARSE=1       on a machine without a GPU: the emulated build (make EMU=1 build), PyTorch on
#                    the CPU, tiny shapes. Shows that every line here runs, nothing else.
#   ONLY=PATTERN     only checks whose name the pattern fits, such as 'peers_*'
#   SECONDS_MAX=540  when no further check is begun, and those under way are ended
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
part=${1:-} out=${2:-}
case $part in
    correct | speed | train | branches) ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
        exit 64
        ;;
esac
[[ -n $out ]] || { echo "gpu_check: name a folder for the results" >&2; exit 64; }
mkdir -p "$out" || exit 74
out=$(cd "$out" && pwd)
scratch=$PWD/build/gpu_check # large and short-lived; only $work goes into the archive
[[ $part != branches ]] || scratch=$out/scratch
work=$scratch/$part plans=$scratch/plans # plans of another part on the same machine are kept
rm -rf "${scratch:?}"/{bin,"$part"}
mkdir -p "$work" "$plans" || exit 74
rehearse=${REHEARSE:-}
passed=0 failed=0 skipped=0
torch=''    # whether it is there, once that was asked
patience=1 # factor of all time limits
[[ -z $rehearse ]] || patience=8
deadline=${SECONDS_MAX:-$((patience * 540))}
export LC_ALL=C TZ=UTC PYTHONUNBUFFERED=1
export PATH=$PATH:/usr/local/cuda/bin # ncu and compute-sanitizer may lie there
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
for file in configs/gpus/*.plans .gpu/plans/*.plans; do
    [[ -f $file ]] && cp "$file" "$plans"
done
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

wanted() { # NAME
    # shellcheck disable=SC2254 # a pattern
    case $1 in ${ONLY:-*}) ;; *) return 1 ;; esac
}

skip() { # NAME WHY
    wanted "$1" || return 0
    say "skip $1: $2"
    ((skipped += 1))
}

# pack NAME FOLDER...: OUTDIR/NAME.tar.gz, at most 15 MB of it
pack() {
    local file=$scratch/$1.tar.gz
    tar -czf "$file" -C "$scratch" "${@:2}" 2> /dev/null
    if (($(stat -c %s "$file") > 15000000)); then
        echo "gpu_check: $1.tar.gz is over 15 MB; it stays as it was" >&2
    else
        cp "$file" "$out/"
    fi
}

save() {
    pack "gpu_check_$part" "$part"
    [[ -z $(ls "$plans") ]] || pack "gpu_plans_$part" plans
}

# check NAME SECONDS COMMAND...: runs it with its own time limit inside the deadline; its output is
# NAME.log, the end of it is shown if it fails. When it ran is a line of checks.csv.
check() {
    local name=$1 limit=$2 left=$((deadline - SECONDS)) start=$SECONDS begun=$EPOCHREALTIME status
    shift 2
    wanted "$name" || return 0
    if ((left < 10)); then
        say "NOT RUN  $name: no time left"
        ((failed += 1))
        return 1
    fi
    limit=$((patience * limit))
    ((limit < left)) || limit=$left
    run_limited "$limit" "$@" > "$work/$name.log" 2>&1 < /dev/null
    status=$?
    echo "$name,$status,$begun,$EPOCHREALTIME" >> "$work/checks.csv"
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

# The same for what PyTorch is needed for.
torch_check() {
    wanted "$1" || return 0
    [[ -n $torch ]] || torch=$(python3 -c 'import torch, torchvision; print("there")' 2> /dev/null)
    if [[ ${torch:=none} == there ]]; then check "$@"
    else skip "$1" "no PyTorch here"; fi
}

show() { # what checks have said
    for name in "$@"; do cat "$work/$name.log" 2> /dev/null; done
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

# network NAME BATCH SIZE: sets net, the arguments of a benchmark.
# A rehearsal takes one that plain loops can run.
network() {
    if [[ -z $rehearse ]]; then
        net=(--model "$1" --batch "$2" --size "$3" --device cuda --seconds 10)
    else
        net=(--model "${1/#resnet50/resnet18}" --batch 2 --size 32 --device cpu --steps 1
            --set model.name=mlp --set data.image_size=8 --set data.eval_resize=8)
    fi
    net+=(--convoy "$convoy" --plan-cache "$plans")
    brief=(--seconds "${rehearse:+0.000}5") # where there are many measurements
}

# Ten steps of training twice: the same bits.
twice() { # PRECISION SCRATCH PLANS REHEARSE
    local run model=(model.name=resnet50 train.batch_per_rank=256)
    [[ -z $4 ]] || model=(model.name=resnet20 data.image_size=16 data.eval_resize=16
        train.batch_per_rank=2)
    for run in first second; do
        rm -rf "${2:?}/$run"
        "$CONVOY" train configs/resnet50-imagenet.yaml "${model[@]}" data.format=synthetic \
            data.synthetic_images=2560 train.max_steps=10 train.precision="$1" \
            device.backend=cuda device.plan_cache="$3" run.dir="$2/$run" || return
    done
    "$CONVOY_TOOLS/make_ckptdiff" "$2/first/checkpoints/latest" "$2/second/checkpoints/latest"
}

# What convoy says a step takes of memory; the log of the GPU says what it took.
plan_memory() { # PRECISION REHEARSE
    local small=()
    [[ -z $2 ]] || small=(train.batch_per_rank=2 data.image_size=64)
    "$CONVOY" inspect memory configs/resnet50-imagenet.yaml data.format=synthetic \
        data.synthetic_images=2560 train.batch_per_rank=256 train.precision="$1" \
        device.backend=cuda "${small[@]}"
}

# One eager step, kernel by kernel, under the names of layers. NVTX's filter is the first choice; if
# it takes nothing, everything counts.
ncu_step() { # CSV COMMAND...
    local csv=$1 filter
    local metrics=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum
    metrics+=,sm__throughput.avg.pct_of_peak_sustained_elapsed
    local take=(--csv --nvtx --clock-control none --metrics "$metrics")
    shift
    for filter in "--nvtx-include convoy/ --nvtx-include convoy/*" ""; do
        # shellcheck disable=SC2086 # words
        ncu "${take[@]}" $filter --log-file "$csv" "$@" && grep -q 'gpu__time' "$csv" && return 0
    done
    return 1
}

part_correct() {
    local few=() gradients=(--batch 32) step precision script
    if [[ -n $rehearse ]]; then
        few=(--op=grad_)
        gradients=(--device cpu --backend cuda --model resnet18 --size 32 --batch 2
            --precision fp32)
    fi
    network resnet50 256 224
    check eager_bf16 90 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --rate-only --set device.cuda_graph=false --verbose
    check networks 60 "$bin/unit" --jobs=1 --filter=network_gradients --timeout=$((50 * patience))
    show networks
    for precision in bf16 fp16; do
        check "ops_$precision" 75 op_check "$precision" "${few[@]}"
    done
    torch_check gradients 120 python3 scripts/check_gradients.py "$scratch/gradients" \
        --convoy "$convoy" --plan-cache "$plans" "${gradients[@]}"
    show gradients
    for precision in bf16 fp16; do
        check "nodes_$precision" 130 python3 scripts/bench_gpu_nodes.py "${net[@]}" \
            --precision "$precision" --json "$work/nodes_$precision.json" \
            --layers "$work/layers_$precision.csv" --verbose "${brief[@]}"
        check "twice_$precision" 60 twice "$precision" "$scratch" "$plans" "$rehearse"
        check "memory_$precision" 20 plan_memory "$precision" "$rehearse"
    done
    show nodes_bf16 nodes_fp16
    if command -v ncu > /dev/null; then
        step=("$convoy" bench step --nodes --steps 1 --warmup 1 device.cuda_graph=false
            device.backend=cuda device.plan_cache="$plans" train.precision=bf16 model.classes=1000
            data.eval_resize=0)
        if [[ -z $rehearse ]]; then
            step+=(model.name=resnet50 train.batch_per_rank=256 data.image_size=224)
        else
            step+=(model.name=mlp train.batch_per_rank=2 data.image_size=8)
        fi
        check ncu_bf16 150 ncu_step "$work/ncu_bf16.csv" "${step[@]}"
    else
        skip ncu_bf16 "ncu is not installed"
    fi
    for precision in fp32 tf32; do
        check "ops_$precision" 75 op_check "$precision" "${few[@]}"
    done
    check unit_cuda 75 "$bin/unit" --jobs=1 --filter=cuda --without=network_gradients \
        --timeout=$((40 * patience))
    for script in cuda_train cuda_fuse cuda_norms cuda_scale; do
        check "$script" 100 env E2E_LIMIT_S=$((95 * patience)) scripts/e2e.sh "tests/e2e/$script.sh"
    done
    # It compiles an engine for each shape, a second or so.
    check norms_bf16 75 op_check bf16 --op=batchnorm --cudnn
    check attention_bf16 75 op_check bf16 --op=attention --cudnn
    check nccl_alone 30 "$bin/make_commcheck" device
    check staged_2_ranks 30 mpirun -n 2 "$bin/make_commcheck" device
    check nccl_2_ranks 60 mpirun -n 2 sh -c \
        'NCCL_HOSTID=host$OMPI_COMM_WORLD_RANK exec "$@"' sh "$bin/make_commcheck" device
    check cuda_ranks 100 env E2E_LIMIT_S=$((95 * patience)) scripts/e2e.sh tests/e2e/cuda_ranks.sh
}

# ---- speed ----

# What may be faster than the default, each alone; what this convoy lacks is named and left out.
variants=(device.cuda_graph=false train.batch_per_rank=512 train.batch_per_rank=128
    device.side_depth=1 device.side_depth=4 device.batchnorm=cudnn device.batchnorm=auto)
fused=(device.fuse=none device.fuse=all device.fuse=statistics device.fuse=gradient
    device.fuse=statistics,prologue,block_end,block_end_with_shortcut
    device.fuse=gradient,residual_gradient,shortcut_gradient device.batchnorm=auto)

part_speed() {
    local modes=(eager graph compile) times=2
    [[ -z $rehearse ]] || modes=(eager) times=1 variants=("${variants[0]}") fused=("${fused[0]}")
    network resnet50 256 224
    for precision in bf16 fp16; do
        torch_check "peers_$precision" 220 python3 scripts/bench_gpu_peers.py "${net[@]}" \
            --precision "$precision" --alternations "$times" --modes "${modes[@]}" --limit 100 \
            --json "$work/peers_$precision.json"
    done
    show peers_bf16 peers_fp16
    check matrix_fp16 130 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision fp16 \
        --against "${fused[@]}" "${brief[@]}" --json "$work/matrix_fp16.json"
    check matrix_bf16 170 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --against "${variants[@]}" "${brief[@]}" --json "$work/matrix_bf16.json"
    show matrix_fp16 matrix_bf16
    if ((deadline - SECONDS < 60)); then
        skip peers_autotune "less than a minute left"
    else
        [[ -z $rehearse ]] && modes=(autotune)
        torch_check peers_autotune 160 python3 scripts/bench_gpu_peers.py "${net[@]}" \
            --precision bf16 --alternations 1 --modes "${modes[@]}" --limit 120 \
            --json "$work/peers_autotune.json"
        show peers_autotune
    fi
}

# ---- train ----

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
    local scratch=$1 plans=$2 rehearse=$3
    local settings=(--set train.precision=bf16 --set train.batch_per_rank=256 --set train.epochs=16)
    [[ -n $rehearse ]] && settings=(--set train.precision=bf16 --set train.batch_per_rank=2
        --set train.max_steps=12 --set train.epochs=2 --set model.name=mlp
        --set data.image_size=8 --set data.eval_resize=8)
    images_folder "$scratch/jpegs" ${rehearse:+2} &&
        "$CONVOY" train configs/resnet50-imagenet.yaml --set data.train="$scratch/jpegs/train" \
            --set data.val= --set run.dir="$scratch/files" \
            --set device.plan_cache="$plans" --set device.backend=cuda \
            --set checkpoint.every_epochs=0 "${settings[@]}"
}

# Median rate and mean wait of the steps after the first epoch,
# and the share of the rate on synthetic images.
tell_files() {
    local synthetic
    synthetic=$(sed -n 's/.*: \([0-9]*\) images.s, .* ms a step$/\1/p' "$work/synthetic.log")
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

train_cifar() { # PRECISION CIFAR SCRATCH REHEARSE PLANS
    local settings=(--set train.epochs=60 --set train.batch_per_rank=128 --set train.eval_every=5)
    [[ -n $4 ]] && settings=(--set train.epochs=1 --set train.batch_per_rank=2
        --set train.max_steps=3 --set model.name=mlp --set data.image_size=8
        --set data.eval_resize=8)
    "$CONVOY" train configs/resnet20-cifar10.yaml --set data.train="$2/train" \
        --set data.val="$2/test" --set run.dir="$3/cifar_$1" \
        --set device.backend=cuda --set train.precision="$1" \
        --set device.plan_cache="$5" "${settings[@]}"
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

have_cifar() {
    [[ -z ${CIFAR:-} ]] || return 0
    CIFAR=$scratch/cifar10
    if [[ -n $rehearse ]]; then
        "$bin/make_shapes" "$CIFAR" --train 2 --val 1 --size 32 > /dev/null &&
            mv "$CIFAR/val" "$CIFAR/test"
    else
        tar -xzf .gpu/cifar10-jpeg.tar.gz -C "$scratch"
    fi
}

part_train() {
    local precision op modes=(eager graph compile)
    [[ -z $rehearse ]] || modes=(eager)
    network resnet50 256 224
    check synthetic 60 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 --rate-only
    check from_files 80 train_from_files "$scratch" "$plans" "$rehearse"
    cp "$scratch/files/metrics.jsonl" "$work/from_files.jsonl" 2> /dev/null &&
        tell_files > "$work/from_files.txt" && say "    $(< "$work/from_files.txt")"
    network efficientnet_b0 256 224
    check nodes_b0 60 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --json "$work/nodes_b0.json" --layers "$work/layers_b0.csv"
    torch_check peers_b0 110 python3 scripts/bench_gpu_peers.py "${net[@]}" --precision bf16 \
        --alternations 1 --modes "${modes[@]}" --limit 60 --json "$work/peers_b0.json"
    # The choice cudnn compiles some engines, which auto finds in the plan cache.
    check matrix_b0 70 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        "${brief[@]}" --against device.depthwise=cudnn device.depthwise=auto \
        --json "$work/matrix_b0.json"
    network vit_b_16 256 224
    check matrix_vit 70 python3 scripts/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        "${brief[@]}" --against device.attention=own device.attention=cudnn \
        --json "$work/matrix_vit.json"
    show nodes_b0 peers_b0 matrix_b0 matrix_vit
    if have_cifar; then
        for precision in bf16 fp32 fp16; do
            check "cifar_$precision" 110 train_cifar "$precision" "$CIFAR" "$scratch" \
                "$rehearse" "$plans"
            cp "$scratch/cifar_$precision/metrics.jsonl" "$work/cifar_$precision.jsonl" \
                2> /dev/null && say "    $precision: top-1 $(top1 "$precision") %"
        done
        check accuracies 10 accuracies "$(top1 fp32)" "$(top1 bf16)" "$(top1 fp16)"
        show accuracies
    else
        skip cifar "no .gpu/cifar10-jpeg.tar.gz; CIFAR=DIR names a folder"
    fi
    if ! command -v compute-sanitizer > /dev/null; then
        skip compute_sanitizer "not installed"
        return
    fi
    for op in batchnorm pool2d softmax_xent update grad_ linear; do
        check "memcheck_$op" 40 sanitize memcheck "$op"
    done
    for op in batchnorm softmax_xent grad_; do
        check "racecheck_$op" 40 sanitize racecheck "$op"
    done
    for op in batchnorm pool2d; do check "initcheck_$op" 40 sanitize initcheck "$op"; done
}

# ---- branches ----

part_branches() {
    patience=1
    check passes 10 true
    check fails 10 ls /nowhere
    check hangs 1 sleep 30
    torch_check peers 20 python3 -c 'import torch; print(torch.__version__)'
    deadline=$SECONDS
    check late 10 true
}

export -f op_check sanitize images_folder train_from_files train_cifar accuracies twice plan_memory
export -f ncu_step
[[ -z $rehearse ]] || echo "REHEARSE=$rehearse" > "$work/rehearsed.txt"
nvidia-smi > "$work/nvidia-smi.txt" 2>&1
if command -v nvidia-smi > /dev/null; then
    fields=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used
    nvidia-smi --format=csv,nounits -lms 500 --query-gpu=$fields > "$work/gpu.csv" 2>&1 &
    trap 'kill '$! EXIT
fi
grep -m 1 -E 'NVIDIA [A-Z]+[0-9]' "$work/nvidia-smi.txt"
"$convoy" --version | tee "$work/version.txt"
if [[ $part != branches ]]; then
    check device 20 python3 scripts/gpu_describe.py "$work/device.json" \
        ${rehearse:+--from configs/gpus/h200.json}
    show device
fi
part_"$part"
save
rm -rf "${scratch:?}"/{bin,jpegs,files,cifar10,first,second,gradients,cifar_*}
echo "==== $part"
cat "$work/summary.txt"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
