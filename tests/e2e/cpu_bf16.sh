#!/usr/bin/env bash
# cpu_bf16.sh - bf16 on the CPU: what changes no result in fp32 changes none here either, a run goes
# on in what it began with or says why not, and where it is slow it is taken by name alone.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 3
make_config
has=$("$CONVOY" --version | sed -n 's/^backend cpu: .*; bf16: \([^,]*\).*/\1/p')
[[ $has =~ ^(none|emulated|AVX-512|AVX-512 of AMD|AMX)$ ]] ||
    broken "--version says of bf16: ${has:-nothing}"
bf16=(train.precision=bf16 device.emulate=true train.max_steps=6)

# started RUN PRECISION - the last part of the run computed in it, and its log says so.
started()
{
    expect_field "$1" "$1" start precision "$2"
    grep -q " info cpu in $2: " "$SCRATCH/$1/log.txt" || broken "$1: log.txt does not say cpu in $2"
}

# ---- results ----

train first 1 "${bf16[@]}"
started first bf16
slower=0 tests=0
[[ $has == none ]] && tests=1
[[ $has =~ ^(emulated|AVX-512)$ ]] && slower=1
expect_text "the warning" "$slower" "bf16 is slower than fp32 on this CPU"
expect_text "emulation" "$tests" "device.emulate: slow, for tests"
expect_text "implementations" 1 "products run by: conv2d "
train second 1 "${bf16[@]}"
same "two runs" first second
train fp32 1 train.max_steps=6
follows "bf16" first fp32 0.03
far "bf16 is another computation" first fp32 1e-5

constant=("${bf16[@]}" schedule.name=constant)
train whole 1 "${constant[@]}"
train broken_off 1 "${constant[@]}" train.max_steps=3
train broken_off 1 "${constant[@]}"
expect_text "goes on" 1 "resumed from"
same "stopped and continued" whole broken_off
[[ $(losses whole) == "$(losses broken_off)" ]] || broken "stopped and continued: the losses differ"

for threads in 1 4; do train "threads$threads" 1 "${bf16[@]}" "data.threads=$threads"; done
same "1 and 4 decode threads" threads1 threads4

# What is rounded to bf16 differs by where a batch is cut, as it does by a rounding in fp32.
frozen=("${bf16[@]}" model.bn=frozen train.max_steps=4)
train whole_batch 1 "${frozen[@]}"
train micro 1 "${frozen[@]}" train.batch_per_rank=4 train.accumulate=2
near "1 x 8 and 1 x 4 accumulated twice" whole_batch micro 1e-2
if have_mpi; then
    train two 2 "${frozen[@]}" train.batch_per_rank=4
    near "1 x 8 and 2 x 4" whole_batch two 1e-2
    expect_text "2 x 4" 0 "memory of the device"
fi

# ---- evaluation, pictures, memory, allocations ----

ranks=(1)
have_mpi && ranks=(1 2)
for n in "${ranks[@]}"; do
    settings "eval$n" "${bf16[@]}" "data.val=$SCRATCH/data/val"
    expect "eval on $n ranks" 0 run "$n" eval "${sets[@]}" --checkpoint "$(latest first)"
    expect_field "eval on $n ranks" "eval$n" eval images 30
    expect_field "eval on $n ranks" "eval$n" eval top1 "$(field eval1 eval top1)"
done
picture=$SCRATCH/data/val/star/0000.jpg
for precision in fp32 bf16; do
    expect "predict in $precision" 0 run 1 predict "$(latest first)" "$picture" --top 1 \
        --precision "$precision"
    sed -nE 's/^ +([0-9.]+) %.*/\1/p' "$out" > "$SCRATCH/$precision.percent"
done
awk 'NR == FNR { a = $1; next } { d = $1 - a; exit !(d < 5 && d > -5) }' \
    "$SCRATCH"/{fp32,bf16}.percent || broken "predict: fp32 and bf16 differ by more than 5 %"
expect_error "predict" 64 "--precision: unknown value fp8" 1 predict "$(latest first)" "$picture" \
    --precision fp8

# activations KEY=VALUE... - bytes of them in the plan.
activations()
{
    settings memory train.batch_per_rank=64 "$@"
    expect "inspect memory" 0 run 1 inspect memory "${sets[@]}"
    awk '$1 == "activations" { print $2 }' "$out"
}
awk -v half="$(activations "${bf16[@]}")" -v all="$(activations)" \
    'BEGIN { r = half / all; exit !(r > 0.4 && r < 0.6) }' ||
    broken "activations are not half as large as in fp32"
settings bench "${bf16[@]}"
expect "bench step" 0 run 1 bench step "${sets[@]}" --steps 4
expect_text "bench step" 1 "allocations 0"

# ---- which precision ----

ask=(train.precision=auto train.max_steps=2)
train_fails tf32 78 "train.precision: tf32 is not supported on the CPU" 1 \
    train.precision=tf32
train_fails fp16 78 "train.precision: fp16 is not supported on the CPU" 1 \
    train.precision=fp16
export ONEDNN_MAX_CPU_ISA=AVX2
train_fails avx2 78 "train.precision: bf16 is not supported by this CPU" 1 \
    train.precision=bf16
train avx2 1 "${bf16[@]}" train.max_steps=2
expect_text "bf16 on AVX2" 1 "cpu in bf16: device.backend is cpu, device.emulate: slow, for tests"
train avx2_too 1 "${bf16[@]}" train.max_steps=2
same "two runs on AVX2" avx2 avx2_too
train avx2_auto 1 "${ask[@]}" device.emulate=true
started avx2_auto fp32
unset ONEDNN_MAX_CPU_ISA

# What auto became is kept, whatever the machine; here as if by a machine with the other.
train auto 1 "${ask[@]}"
became=fp32
[[ $has == AMX || $has == *AMD ]] && became=bf16
started auto "$became"
grep -q "^  precision_auto: $became\$" "$SCRATCH/auto/config.yaml" ||
    broken "auto: config.yaml does not say what it became"
for other in fp32 bf16; do
    train "$other-began" 1 "${ask[@]}" "train.precision_auto=$other" device.emulate=true
    train "$other-began" 1 "${ask[@]}" train.max_steps=4 device.emulate=true
    expect_text "$other goes on" 1 "resumed from"
    expect_text "$other goes on" 0 "train.precision was"
    expect_text "$other goes on" 0 "train.precision_auto was"
    started "$other-began" "$other"
done
# In a new folder too, and what was named; not where it is not to be had, nor where it is begun
# anew.
train from_file 1 "${ask[@]}" train.max_steps=6 device.emulate=true \
    "checkpoint.resume=$(latest bf16-began)"
started from_file bf16
train named 1 "${ask[@]}" train.precision=fp32
train named 1 "${ask[@]}" train.max_steps=4 device.emulate=true
expect_text "named before" 0 "train.precision was"
started named fp32
export ONEDNN_MAX_CPU_ISA=AVX2
train_fails bf16-began 78 "this run started with it (train.precision_auto): train.precision: bf16" \
    1 "${ask[@]}" train.max_steps=6
expect_error "the folder" 78 "train.precision: bf16" 1 train "$SCRATCH/bf16-began" \
    train.max_steps=6 device.emulate=false
settings bf16-began "${ask[@]}" "data.val=$SCRATCH/data/val"
expect "evaluation chooses anew" 0 run 1 eval "${sets[@]}"
expect "predict chooses anew" 0 run 1 predict "$SCRATCH/bf16-began" "$picture"
train bf16-began 1 "${ask[@]}" train.max_steps=6 checkpoint.resume=none
started bf16-began fp32
unset ONEDNN_MAX_CPU_ISA

# What a run named binds predict only where the CPU computes in it.
if [[ $has != none ]]; then
    train bf16-here 1 train.precision=bf16 train.max_steps=2
    export ONEDNN_MAX_CPU_ISA=AVX2
    expect "predict on AVX2" 0 run 1 predict "$SCRATCH/bf16-here" "$picture"
    expect_error "predict in bf16 on AVX2" 78 "train.precision: bf16" 1 predict \
        "$SCRATCH/bf16-here" "$picture" --precision bf16
    unset ONEDNN_MAX_CPU_ISA
fi

# Ranks of several kinds: fp32 for all, as long as tensors lie alike.
if have_mpi && [[ $has != none ]]; then
    for isa in AVX512_CORE:0 AVX2:78; do
        settings "mixed-${isa%:*}" "${ask[@]}" train.batch_per_rank=4
        expect "a rank with ${isa%:*}" "${isa#*:}" timeout 120 mpirun \
            -n 1 "$CONVOY" train "${sets[@]}" : \
            -n 1 env "ONEDNN_MAX_CPU_ISA=${isa%:*}" "$CONVOY" train "${sets[@]}"
    done
    expect_one_error "a rank with AVX2" "use machines of the same kind"
    started mixed-AVX512_CORE fp32
    [[ $has == emulated ]] && why="this" || why="another rank's"
    grep -q "$why CPU has no fast bf16" "$SCRATCH/mixed-AVX512_CORE/log.txt" ||
        broken "log.txt does not say that $why CPU has no fast bf16"
fi
exit "$failed"
