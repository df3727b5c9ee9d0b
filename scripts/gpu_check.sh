#!/usr/bin/env bash
# gpu_check.sh first OUTDIR - what only a GPU can show, in one command of eight minutes;
# gpu_check.sh again OUTDIR SECONDS - on the same machine, what failed in it or had no time;
# gpu_check.sh correct|speed|train OUTDIR - all of it, in three commands of nine and a half minutes
# each, for a machine that is had for longer. The most valuable comes first in each.
#
#   first     a step of ResNet-50 at 224 px in bf16, launch by launch and as a graph; gradients of
#             whole networks, every operation in fp32, bf16 and fp16, and ResNet-50's gradients
#             against PyTorch, side by side; images/s in bf16 and fp16 against PyTorch in turn;
#             time and bytes by layer; each fusion, cuDNN's norms and depthwise engines timed once;
#             a minute of training from JPEG files
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
#   branches  checks that pass, fail, hang and are skipped, alone and side by side: shows that this
#             script tells them apart
#
# Each begins with the GPU's properties. Where scripts/gpu/gpu_pack.sh has filled .gpu/, that is
# used; else the binaries of `make build`. Each check has a time limit of its own, so one that hangs
# costs only that. What was found is in OUTDIR/gpu_check_PART.tar.gz, the plans of cuDNN that were
# chosen in OUTDIR/gpu_plans_PART.tar.gz; both are written anew after every check, and
# scripts/gpu/gpu_learn.py reads them. Plans in .gpu/plans or configs/gpus are taken, so that
# nothing is timed twice. The summary is printed, with this for its last line:
# "N passed, N failed, N skipped".
#
#   REHEARSE=h200    on a machine without a GPU: the emulated build (make EMU=1 build), PyTorch on
#                    the CPU, tiny shapes, and that description of configs/gpus. Shows that every
#                    line here runs, nothing else.
#   ONLY=PATTERN     only checks whose name the pattern fits, such as 'peers_*'
#   SECONDS_MAX=540  when no further check is begun, and those under way are ended (first: 470)
#   AGAIN=first      the part whose failures again repeats
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
part=${1:-} out=${2:-} seconds=${3:-${SECONDS_MAX:-}}
case $part in
    again) [[ $seconds =~ ^[0-9]+$ ]] || { echo "gpu_check: again needs SECONDS" >&2; exit 64; } ;;
    first | correct | speed | train | branches) ;;
    *)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
        exit 64
        ;;
esac
[[ -n $out ]] || { echo "gpu_check: name a folder for the results" >&2; exit 64; }
mkdir -p "$out" || exit 74
out=$(cd "$out" && pwd)
scratch=$PWD/build/gpu_check # large and short-lived; only $work goes into the archive
[[ $part != branches && ${AGAIN:-} != branches ]] || scratch=$out/scratch
# Of another part on the same machine plans are kept, and what again is to repeat.
work=$scratch/$part plans=$scratch/plans
repeated=()
if [[ $part == again ]]; then
    earlier=${AGAIN:-first} last=$scratch/${AGAIN:-first}
    [[ ! $scratch/again -nt $last ]] || last=$scratch/again
    mapfile -t repeated < <(cat "$last/failed.txt" 2> /dev/null)
    ((${#repeated[@]})) || { echo "gpu_check: nothing of $earlier is left to repeat"; exit 0; }
fi
rm -rf "${scratch:?}"/{bin,"$part"}
mkdir -p "$work" "$plans" || exit 74
rehearse=${REHEARSE:-}
passed=0 failed=0 skipped=0
torch=''    # whether it is there, once that was asked
patience=1 # factor of all time limits
[[ -z $rehearse ]] || patience=8
usual=540
[[ $part != first ]] || usual=470
deadline=${seconds:-$((patience * usual))}
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
for b in convoy ops unit make_shapes make_commcheck make_ckptdiff make_jsonlcheck; do
    [[ -x $bin/$b ]] || {
        echo "gpu_check: $bin/$b is not there; see scripts/gpu/gpu_pack.sh" >&2
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
    ((${#repeated[@]} == 0)) || [[ " ${repeated[*]} " == *" $1 "* ]] || return 1
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

# begin NAME SECONDS COMMAND...: starts it with its own time limit inside the deadline; finish waits
# for all that were begun and judges them. Its output is NAME.log, the end of it is shown if it
# fails. When it ran is a line of checks.csv; what again is to repeat, one of failed.txt.
begun=()
begin() {
    local name=$1 limit=$2 left=$((deadline - SECONDS))
    shift 2
    wanted "$name" || return 0
    if ((left < 10)); then
        say "NOT RUN  $name: no time left"
        echo "$name" >> "$work/failed.txt"
        ((failed += 1))
        return
    fi
    limit=$((patience * limit))
    ((limit < left)) || limit=$left
    {
        start=$EPOCHREALTIME
        run_limited "$limit" "$@" > "$work/$name.log" 2>&1
        echo "$name,$?,$start,$EPOCHREALTIME" > "$work/$name.csv"
    } < /dev/null &
    begun+=("$name" "$!")
}

finish() {
    local name status start end
    while ((${#begun[@]})); do
        name=${begun[0]}
        wait "${begun[1]}"
        begun=("${begun[@]:2}")
        IFS=, read -r name status start end < "$work/$name.csv"
        cat "$work/$name.csv" >> "$work/checks.csv"
        rm "$work/$name.csv"
        took=$((${end%.*} - ${start%.*}))
        if ((status == 0)); then
            ((passed += 1))
            say "PASSED   $name ($took s)"
        else
            ((failed += 1))
            echo "$name" >> "$work/failed.txt"
            say "FAILED   $name: status $status after $took s"
            grep -E 'FAIL|error|Error|broken' "$work/$name.log" | head -n 6 | cut -c 1-300 |
                sed 's/^/    /'
            tail -n 8 "$work/$name.log" | cut -c 1-300 | sed 's/^/    /'
        fi
    done
    save
}

check() { # NAME SECONDS COMMAND...: nothing beside it
    begin "$@"
    finish
}

# with_torch begin|check NAME ...: the same for what PyTorch is needed for.
with_torch() {
    wanted "$2" || return 0
    [[ -n $torch ]] || torch=$(python3 -c 'import torch, torchvision; print("there")' 2> /dev/null)
    if [[ ${torch:=none} == there ]]; then "$@"
    else skip "$2" "no PyTorch here"; fi
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

op_check() { "$CONVOY_TOOLS/ops" --backend="cuda:$1" "${@:2}"; }

# sanitize TOOL OP - the cases of an op; the tool's own exit status says whether it found anything.
sanitize() {
    compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9 "$CONVOY_TOOLS/ops" \
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
    for run in run_1 run_2; do
        rm -rf "${2:?}/$run"
        "$CONVOY" train configs/resnet50-imagenet.yaml "${model[@]}" data.format=synthetic \
            data.synthetic_images=2560 train.max_steps=10 train.precision="$1" \
            device.backend=cuda device.plan_cache="$3" run.dir="$2/$run" || return
    done
    "$CONVOY_TOOLS/make_ckptdiff" "$2/run_1/checkpoints/latest" "$2/run_2/checkpoints/latest"
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

# few: the operations that a rehearsal takes; gradients: the network that is held against PyTorch.
small_or_whole() {
    few=() gradients=(--batch 32)
    if [[ -n $rehearse ]]; then
        few=(--op=grad_)
        gradients=(--device cpu --backend cuda --model resnet18 --size 32 --batch 2
            --precision fp32)
    fi
    network resnet50 256 224
}

one_step() { # NAME SECONDS [SETTINGS]: a rate, and all that convoy says
    check "$1" "$2" python3 scripts/bench/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --rate-only \
        --verbose "${@:3}"
}

networks() { # begin|check
    "$1" networks 60 "$bin/unit" --jobs=1 --filter=network_gradients --timeout=$((50 * patience))
}

gradients() { # begin|check
    with_torch "$1" gradients 120 python3 scripts/bench/check_gradients.py "$scratch/gradients" \
        --convoy "$convoy" --plan-cache "$plans" "${gradients[@]}"
}

nodes() { # PRECISION SECONDS
    check "nodes_$1" "$2" python3 scripts/bench/bench_gpu_nodes.py "${net[@]}" --precision "$1" \
        --json "$work/nodes_$1.json" --layers "$work/layers_$1.csv" --verbose "${brief[@]}"
}

matrix() { # NAME SECONDS PRECISION SETTINGS...
    check "matrix_$1" "$2" python3 scripts/bench/bench_gpu_nodes.py "${net[@]}" --precision "$3" \
        "${brief[@]}" --json "$work/matrix_$1.json" --against "${@:4}"
}

peers() { # NAME SECONDS PRECISION ALTERNATIONS LIMIT MODES...
    with_torch check "peers_$1" "$2" python3 scripts/bench/bench_gpu_peers.py "${net[@]}" \
        --precision "$3" --alternations "$4" --limit "$5" --json "$work/peers_$1.json" \
        --modes "${@:6}"
}

# What may be faster than the default, each alone; what this convoy lacks is named and left out.
variants=(device.cuda_graph=false train.batch_per_rank=512 train.batch_per_rank=128
    device.side_depth=1 device.side_depth=4 device.batchnorm=cudnn device.batchnorm=auto)
fused=(device.fuse=none device.fuse=all device.fuse=statistics device.fuse=gradient
    device.fuse=statistics,prologue,block_end,block_end_with_shortcut
    device.fuse=gradient,residual_gradient,shortcut_gradient device.batchnorm=auto)

# ---- first ----

# The checks that measure nothing run side by side: the reference computes on the CPU for most of
# their time.
part_first() {
    local modes=(eager graph) settings=("${fused[@]}") precision
    [[ -z $rehearse ]] || modes=(eager) settings=("${fused[0]}")
    small_or_whole
    one_step eager_bf16 80 --set device.cuda_graph=false
    one_step graph_bf16 30
    show eager_bf16 graph_bf16
    networks begin
    for precision in bf16 fp16 fp32; do
        begin "ops_$precision" 100 op_check "$precision" "${few[@]}"
    done
    gradients begin
    finish
    show networks gradients
    net+=("${brief[@]}")
    for precision in bf16 fp16; do peers "$precision" 100 "$precision" 2 60 "${modes[@]}"; done
    show peers_bf16 peers_fp16
    for precision in bf16 fp16; do nodes "$precision" 40; done
    show nodes_bf16 nodes_fp16
    brief=(--seconds "${rehearse:+0.000}3")
    matrix fp16 60 fp16 "${settings[@]}"
    matrix bf16 40 bf16 device.batchnorm=cudnn device.side_depth=1
    network efficientnet_b0 256 224
    brief=(--seconds "${rehearse:+0.000}3")
    matrix b0 50 bf16 device.depthwise=cudnn
    show matrix_fp16 matrix_bf16 matrix_b0
    jpeg_files 75 graph_bf16
}

# ---- correct ----

part_correct() {
    local few gradients step precision script
    small_or_whole
    one_step eager_bf16 90 --set device.cuda_graph=false
    networks check
    show networks
    for precision in bf16 fp16; do
        check "ops_$precision" 75 op_check "$precision" "${few[@]}"
    done
    gradients check
    show gradients
    for precision in bf16 fp16; do
        nodes "$precision" 130
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

part_speed() {
    local modes=(eager graph compile) times=2
    [[ -z $rehearse ]] || modes=(eager) times=1 variants=("${variants[0]}") fused=("${fused[0]}")
    network resnet50 256 224
    for precision in bf16 fp16; do
        peers "$precision" 220 "$precision" "$times" 100 "${modes[@]}"
    done
    show peers_bf16 peers_fp16
    matrix fp16 130 fp16 "${fused[@]}"
    matrix bf16 170 bf16 "${variants[@]}"
    show matrix_fp16 matrix_bf16
    if ((deadline - SECONDS < 60)); then
        skip peers_autotune "less than a minute left"
    else
        [[ -z $rehearse ]] && modes=(autotune)
        peers autotune 160 bf16 1 120 "${modes[@]}"
        show peers_autotune
    fi
}

# ---- train ----

source scripts/gpu/train_checks.sh

part_train() {
    local precision op modes=(eager graph compile)
    [[ -z $rehearse ]] || modes=(eager)
    network resnet50 256 224
    check synthetic 60 python3 scripts/bench/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --rate-only
    jpeg_files 80 synthetic
    network efficientnet_b0 256 224
    check nodes_b0 60 python3 scripts/bench/bench_gpu_nodes.py "${net[@]}" --precision bf16 \
        --json "$work/nodes_b0.json" --layers "$work/layers_b0.csv"
    peers b0 110 bf16 1 60 "${modes[@]}"
    # The choice cudnn compiles some engines, which auto finds in the plan cache.
    matrix b0 70 bf16 device.depthwise=cudnn device.depthwise=auto
    network vit_b_16 256 224
    matrix vit 70 bf16 device.attention=own device.attention=cudnn
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
    begin beside 10 sleep 1
    begin fails_beside 10 ls /nowhere
    finish
    check fails 10 ls /nowhere
    check hangs 1 sleep 30
    with_torch check peers 20 python3 -c 'import torch; print(torch.__version__)'
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
    check device 20 python3 scripts/gpu/gpu_describe.py "$work/device.json" \
        ${rehearse:+--from "configs/gpus/$rehearse.json"}
    show device
fi
part_"${earlier:-$part}"
save
rm -rf "${scratch:?}"/{bin,jpegs,files,cifar10,run_1,run_2,gradients,cifar_*}
echo "==== $part"
cat "$work/summary.txt"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
