#!/usr/bin/env bash
# cuda_norms.sh - batch norms by cuDNN (device.batchnorm): they train as our own do, are said, and
# change nothing about replay and resumption.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

train own 1
grep -q "device.batchnorm" "$out" && broken "our own kernels are spoken of"
train cudnn 1 device.batchnorm=cudnn
# resnet20: the stem's and the first stage's layers are of one shape, blocks end in another
expect_text "cudnn" 1 "by cuDNN (device.batchnorm, depthwise, attention): "
expect_text "cudnn" 1 "batchnorm 6 of 6 shapes"
follows "cudnn" cudnn own 1e-3

# Where nothing can be measured and kept our own are used, and it is said.
train automatic 1 device.batchnorm=auto device.plan_cache=none
expect_text "auto" 1 "batchnorm 0 of 6 shapes, 6 not measured"
same "auto where nothing is measured" automatic own

train eager 1 device.batchnorm=cudnn device.cuda_graph=false
same "recorded and eager" cudnn eager
train parts 1 device.batchnorm=cudnn train.max_steps=2
train parts 1 device.batchnorm=cudnn
same "6 steps and 2 + 4" cudnn parts
settings wrong device.batchnorm=ours
expect "a mode that does not exist" 64 run 1 train "${sets[@]}"
exit "$failed"
