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

# falls WHAT RUN SHARE - the mean loss of the last two steps is below this share
# of that of the first two.
falls()
{
    losses "$2" | awk -v share="$3" '
        { loss[NR] = $2 }
        END { exit !(NR >= 4 && loss[NR] + loss[NR - 1] < share * (loss[1] + loss[2])) }' ||
        broken "$1: the loss of $2 does not fall"
}
