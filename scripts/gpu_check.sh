#!/usr/bin/env bash
# gpu_check.sh correct|speed|train OUTDIR - everything that only a GPU can show, each part in under 9 minutes, the most valuable first.
#
#   correct   every op and precision against the reference, whole runs against the CPU backend, graph against eager, resume, two ranks on one
#             GPU, compute-sanitizer
#   speed     ResNet-50 at 224 px: images/s in bf16 and fp16 against PyTorch in the same run, where the step's time goes, batch sizes, JPEG files
#             end to end
#   train     ResNet-20 on CIFAR-10 JPEGs, 60 epochs in fp32, bf16 and fp16 (.gpu/cifar10-jpeg.tar.gz or CIFAR=DIR with train/ and test/)
#
# Where scripts/gpu_pack.sh has filled .gpu/, that is used; else the binaries of `make build sweep`. All that was found is in
# OUTDIR/gpu_check_PART.tar.gz; the summary is printed, and its last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
part=${1:-} out=${2:-}
case $part in correct | speed | train) ;; *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 64 ;; esac
[[ -n $out ]] || { echo "gpu_check: name a folder for the results" >&2; exit 64; }
mkdir -p "$out" || exit 74
out=$(cd "$out" && pwd)
work=$out/$part
mkdir -p "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
deadline=$((SECONDS + 520)) passed=0 failed=0

if [[ -f .gpu/libraries.tar.xz ]]; then
    tar -xJf .gpu/libraries.tar.xz --absolute-names --skip-old-files && ldconfig
    bin=$PWD/.gpu/bin
else
    bin=$PWD/build
    cp -f convoy build/convoy 2> /dev/null
fi
convoy=$bin/convoy
export CONVOY=$convoy

# check NAME SECONDS COMMAND...: runs it with its own time limit inside the deadline; its output is NAME.log and the end of it is shown.
check() {
    local name=$1 limit=$2 left=$((deadline - SECONDS)) start=$SECONDS status
    shift 2
    if ((left < 5)); then
        echo "NOT RUN  $name: no time left" | tee -a "$work/summary.txt"
        ((failed += 1))
        return
    fi
    ((limit < left)) || limit=$left
    timeout "$limit" "$@" > "$work/$name.log" 2>&1
    status=$?
    if ((status == 0)); then
        ((passed += 1))
        echo "PASSED   $name ($((SECONDS - start)) s)" | tee -a "$work/summary.txt"
    else
        ((failed += 1))
        echo "FAILED   $name: status $status after $((SECONDS - start)) s" | tee -a "$work/summary.txt"
        tail -n 12 "$work/$name.log" | sed 's/^/    /'
    fi
}

# ---- correct ----

op_check() { "$bin/check" --backend="cuda:$1" "${@:2}"; }

sanitize() { # TOOL OP: the cases of an op; the tool's own exit status says whether it found anything
    compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/check" --backend=cuda:bf16 --op="$2"
}

part_correct() {
    for precision in fp32 bf16 fp16 tf32; do check "ops_$precision" 120 op_check $precision; done
    for script in tests/e2e/cuda_*.sh; do check "$(basename "$script" .sh)" 120 env EMU_CONVOY="$convoy" "$script"; done
    check unit_cuda 60 "$bin/unit" --filter=cuda
    if command -v compute-sanitizer > /dev/null; then
        for op in batchnorm softmax_xent pool2d update; do check "memcheck_$op" 60 sanitize memcheck $op; done
        check racecheck_batchnorm 60 sanitize racecheck batchnorm
        check initcheck_batchnorm 60 sanitize initcheck batchnorm
    else
        echo "NOT RUN  compute-sanitizer is not installed" | tee -a "$work/summary.txt"
    fi
}

# ---- speed ----

bench_step() { # PRECISION BATCH [ARG...]
    "$convoy" bench step --set device.backend=cuda --set train.precision="$1" --set train.batch_per_rank="$2" --set model.name=resnet50 \
        --set model.classes=1000 --set data.image_size=224 --set data.eval_resize=224 --set device.plan_cache="$work/plans" "${@:3}"
}

train_from_files() { # JPEGs of about ImageNet's size, made here; the first epoch warms up
    "$bin/make_shapes" "$work/jpegs" --train 512 --val 8 --size 400 &&
        "$convoy" train configs/resnet50-imagenet.yaml --set data.train="$work/jpegs/train" --set data.val="$work/jpegs/val" --set run.dir="$work/files" \
            --set train.precision=bf16 --set train.batch_per_rank=256 --set train.epochs=6 --set device.backend=cuda
}

part_speed() {
    check peers_bf16 230 python3 scripts/bench_gpu_peers.py --convoy "$convoy" --precision bf16 --alternations 3 --json "$work/peers_bf16.json"
    cat "$work/peers_bf16.log"
    check nodes_bf16 40 bench_step bf16 256 --nodes --steps 20
    check nodes_fp16 40 bench_step fp16 256 --nodes --steps 20
    for batch in 64 128 512; do check "bf16_batch_$batch" 30 bench_step bf16 $batch --steps 20; done
    check eager_bf16 30 bench_step bf16 256 --steps 20 --set device.graph=false
    check peers_fp16 150 python3 scripts/bench_gpu_peers.py --convoy "$convoy" --precision fp16 --alternations 3 --modes eager graph --json "$work/peers_fp16.json"
    check from_files 90 train_from_files
    cat "$work"/nodes_*.log "$work/peers_fp16.log" "$work/from_files.log" 2> /dev/null
}

# ---- train ----

train_cifar() { # PRECISION
    "$convoy" train configs/resnet20-cifar10.yaml --set data.train="$CIFAR/train" --set data.val="$CIFAR/test" --set run.dir="$work/cifar_$1" \
        --set device.backend=cuda --set train.precision="$1" --set train.epochs=60 --set train.batch_per_rank=128 --set train.eval_every=5
}

part_train() {
    if [[ -z ${CIFAR:-} ]]; then
        CIFAR=$work/cifar10
        [[ -f .gpu/cifar10-jpeg.tar.gz ]] || { echo "gpu_check: no .gpu/cifar10-jpeg.tar.gz; name the folder with CIFAR=DIR" >&2; exit 64; }
        tar -xzf .gpu/cifar10-jpeg.tar.gz -C "$work" || exit 74
    fi
    for precision in bf16 fp16 fp32; do
        check "cifar_$precision" 175 train_cifar $precision
        grep ' eval: ' "$work/cifar_$precision.log" | tail -n 1
    done
    rm -rf "$work/cifar10"
}

nvidia-smi > "$work/nvidia-smi.txt" 2>&1
"$convoy" --version | tee "$work/version.txt"
part_"$part"
find "$work" -name '*.safetensors' -delete
rm -rf "$work/jpegs"
tar -czf "$out/gpu_check_$part.tar.gz" -C "$out" "$part"
cat "$work/summary.txt"
echo "$passed passed, $failed failed"
((failed == 0))
