#!/usr/bin/env bash
# cuda_train.sh - the CUDA backend trains as the CPU does: the same losses in fp32, close ones in 16
# bits; and how a step is launched, or split into micro-batches, changes nothing.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

train cpu 1 device.backend=cpu
train fp32 1
expect_text "start" 1 "cuda in fp32: device.backend is cuda"
train bf16 1 train.precision=bf16
train fp16 1 train.precision=fp16
train chosen 1 device.backend=auto train.precision=auto
chosen="device.backend is auto and this machine has a CUDA device, train.precision is auto"
expect_text "start" 1 "cuda in bf16: $chosen"
as_cpu_at_first "fp32" fp32
follows "fp32" fp32 cpu "$(in_any_order 1e-5)"
near "fp32" fp32 cpu "$(in_any_order 1e-5)"
if emulated; then # a device that rounded operands would be noticed
    train tf32_1 1 train.precision=tf32 train.max_steps=1
    unlike "TF32" tf32_1 fp32_1_cpu 2e-6
    far "TF32" tf32_1 fp32_1_cpu 1e-4
fi
follows "bf16" bf16 cpu 0.03
far "bf16 is another computation" bf16 cpu 1e-5
train fp16_4 1 train.precision=fp16 train.max_steps=4
train cpu_4 1 device.backend=cpu train.max_steps=4
follows "fp16" fp16_4 cpu_4 0.01 # later steps are chance: the sixth of four seeds 0.002 to 0.023
expect_field "fp16" fp16 step loss_scale 65536
expect_field "fp16" fp16 step skipped 0
same "bf16 is chosen where the GPU has it" bf16 chosen

# Steps 3 and 4 are recorded, one for each input slot, 5 and 6 replayed.
for precision in fp32 fp16; do
    train "eager_$precision" 1 "train.precision=$precision" device.cuda_graph=false
    same "$precision, recorded and eager" "$precision" "eager_$precision"
    [[ $(losses "$precision") == "$(losses "eager_$precision")" ]] ||
        broken "$precision, recorded and eager: the losses differ"
done

# Frozen stages and parts of layers, and rates by group.
groups=("model.freeze=layer1, *.bn2.bias, fc.weight" "optimizer.groups=layer3.*: lr=3"
    optimizer.decay_skip=none)
train groups_cpu 1 "${groups[@]}" device.backend=cpu
train groups 1 "${groups[@]}"
as_cpu_at_first "frozen and grouped" groups "${groups[@]}"
near "frozen and grouped" groups groups_cpu "$(in_any_order 1e-5)"
far "frozen and grouped" groups fp32 1e-5
train groups_fp16 1 "${groups[@]}" train.precision=fp16
follows "frozen and grouped, fp16" groups_fp16 groups 0.01

# The next step is issued while this one runs, except where a checkpoint wants the state in between.
train stopping 1 checkpoint.every_steps=1 checkpoint.keep=9
same "ahead of the host and step by step" fp32 stopping
[[ $(losses fp32) == "$(losses stopping)" ]] ||
    broken "ahead of the host and step by step: the losses differ"
train three 1 train.max_steps=3
"$tools"/make_ckptdiff "$SCRATCH/stopping/checkpoints/step-00000003.safetensors" \
    "$(latest three)" > "$out" ||
    broken_run "a checkpoint in the middle holds another step's state"

# Another order of everything that events do not order.
CONVOY_EMU_SEED=7 train reordered 1 train.precision=fp16
same "whatever the order between streams" fp16 reordered

# With frozen batch norm the gradient of a batch is the mean over its images.
frozen=(model.bn=frozen train.max_steps=4)
train whole 1 "${frozen[@]}"
train micro 1 "${frozen[@]}" train.batch_per_rank=1 train.accumulate=4
near "1 x 4 and 1 x 1 accumulated four times" whole micro "$(in_any_order 1e-5)"

# Images erased and mixed on the device, with targets to match: as on the CPU, recorded or not.
treated=(data.auto_augment=randaugment data.random_erase=0.5 data.mixup=0.2 data.cutmix=1
    train.label_smoothing=0.1)
train treated_cpu 1 "${treated[@]}" device.backend=cpu
train treated 1 "${treated[@]}"
as_cpu_at_first "erased and mixed" treated "${treated[@]}"
follows "erased and mixed" treated treated_cpu "$(in_any_order 1e-5)"
near "erased and mixed" treated treated_cpu "$(in_any_order 1e-5)"
far "erased and mixed is another run" treated fp32 1e-5
train treated_eager 1 "${treated[@]}" device.cuda_graph=false
same "erased and mixed, recorded and eager" treated treated_eager

# Progressive resizing: each size has programs and recordings of its own,
# over the same parameters and input slots. With this seed no ReLU's input is within rounding of
# zero: the CPU's other instructions (ONEDNN_MAX_CPU_ISA) agree to 3e-8.
grow=(data.synthetic_images=8 "data.progressive_sizes=8, 12" "data.progressive_until=3, 4"
    train.epochs=6 train.max_steps=0
    optimizer.lr=0.002 train.seed=4)
train grow_cpu 1 "${grow[@]}" device.backend=cpu
train grow 1 "${grow[@]}"
follows "progressive resizing" grow grow_cpu "$(in_any_order 1e-5)"
near "progressive resizing" grow grow_cpu "$(in_any_order 1e-5)"
train grow_eager 1 "${grow[@]}" device.cuda_graph=false
same "progressive resizing, recorded and eager" grow grow_eager

# Micro-batches by epoch: a step of one is recorded apart from the first of two. 12 images are 3
# steps of one, then 2 of two, then steps of one.
epochs=(data.synthetic_images=12 "train.accumulate=1, 2, 1" train.epochs=4 train.max_steps=0
    optimizer.lr=0.002)
train epochs_cpu 1 "${epochs[@]}" device.backend=cpu
train epochs 1 "${epochs[@]}"
follows "micro-batches by epoch" epochs epochs_cpu 1e-3
train epochs_eager 1 "${epochs[@]}" device.cuda_graph=false
same "micro-batches by epoch, recorded and eager" epochs epochs_eager

# A perceptron, and Adam; the loss falls.
mlp=(model.name=mlp optimizer.name=adam optimizer.lr=0.001 train.batch_per_rank=16
    train.max_steps=24 train.epochs=9)
train mlp_cpu 1 "${mlp[@]}" device.backend=cpu
train mlp 1 "${mlp[@]}"
follows "mlp" mlp mlp_cpu 1e-4
falls "mlp" mlp 0.8
train mlp_bf16 1 "${mlp[@]}" train.precision=bf16
follows "mlp in bf16" mlp_bf16 mlp_cpu 0.1
falls "mlp in bf16" mlp_bf16 0.8
# A run that diverges goes back, while a step ahead is under way: recorded or not, and stopped
# behind the last time or not, it ends the same.
back=(train.max_steps=8 checkpoint.every_steps=2 optimizer.lr=1e6 train.on_nan=rollback
    train.rollback_lr=0.001)
train back 1 "${back[@]}"
[[ $(field back diverged rollbacks) -ge 1 ]] || broken "back: did not diverge"
train back_eager 1 "${back[@]}" device.cuda_graph=false
same "going back, recorded and eager" back back_eager
train back_parts 1 "${back[@]}" train.max_steps=6
train back_parts 1 "${back[@]}"
same "going back, whole and in parts" back back_parts
exit "$failed"
