# The scripts read what is set here; variables of common.sh.
# shellcheck shell=bash disable=SC2034,SC2154
#
# cuda.sh - whole runs of the CUDA backend: on the emulated device (make EMU=1), or on a GPU where
# EMU_CONVOY names an ordinary build. Sourced after common.sh;
# ends the script with status 77 where that build is not there.
#
# Runs are tiny, since each emulated CUDA thread is a fiber: ResNet-20 on images of 16 pixels.
CONVOY=${EMU_CONVOY:-build/emu/convoy}
if [[ ! -x $CONVOY ]]; then
    echo "$CONVOY is not there: make EMU=1 builds it"
    exit 77
fi
export CONVOY_EMU_MEMORY_MB=4096

# Whether the device is the test double, which alone has a memory of any size and
# as many devices as ranks.
emulated()
{
    "$CONVOY" --version | grep 'test double' > /dev/null
}

# make_tiny_config - writes $SCRATCH/small.yaml, which settings() and train() of common.sh use.
make_tiny_config()
{
    cat > "$SCRATCH/small.yaml" << END
model:
  name: resnet20
  classes: 10
data:
  format: synthetic
  synthetic_images: 64
  image_size: 16
  eval_resize: 0
  mean: [0.5]
  std: [0.25]
  augment: none
  threads: 1
train:
  precision: fp32
  batch_per_rank: 4
  max_steps: 6
optimizer:
  lr: 0.02
  lr_scaling: none
schedule:
  name: constant
  warmup_epochs: 0
device:
  backend: cuda
  threads: 1
END
}

# in_any_order TOLERANCE - what runs of several steps may differ by that add up in other orders:
# TOLERANCE on the emulated device, whose order is known to meet nothing unusual in six steps of
# small.yaml on one rank, 0.02 on a GPU.
#
# The CPU itself against the CPU in another order (ONEDNN_MAX_CPU_ISA=SSE41), 40 seeds of
# small.yaml: a first step differs by 2.6e-7 in its loss, by 1.5e-8 in its parameters and 7.4e-8
# in its running statistics, but for one seed with 3.2e-5 in its parameters, where the input of a
# ReLU lay within rounding of zero. Such a one comes in every third run of six steps, and grows:
# to 0.0091 of a loss, 0.0059 of the parameters. That is as much as TF32 makes of them, which is
# therefore looked for in the first step: as_cpu_at_first().
in_any_order()
{
    if emulated; then echo "$1"; else echo 0.02; fi
}

# as_cpu_at_first WHAT NAME KEY=VALUE... - the first step on the device is that of the CPU: the loss
# to eight times what another order makes of it, a sixteenth of what TF32 does; the parameters to
# three times what one ReLU does, half of TF32. Leaves runs NAME_1 and NAME_1_cpu.
as_cpu_at_first()
{
    local what=$1 name=$2
    shift 2
    train "${name}_1_cpu" 1 "$@" train.max_steps=1 device.backend=cpu
    train "${name}_1" 1 "$@" train.max_steps=1
    follows "$what, first step" "${name}_1" "${name}_1_cpu" 2e-6
    near "$what, first step" "${name}_1" "${name}_1_cpu" 1e-4
}

# falls WHAT RUN SHARE - the mean loss of the last two steps is below this share
# of that of the first two.
falls()
{
    losses "$2" | awk -v share="$3" '
        { loss[NR] = $2 }
        END { exit !(NR >= 4 && loss[NR] + loss[NR - 1] < share * (loss[1] + loss[2])) }' ||
        broken "$1: the loss of $2 does not fall"
}
