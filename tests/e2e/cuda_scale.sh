#!/usr/bin/env bash
# cuda_scale.sh - the dynamic loss scale of fp16 runs: a scale that overflows skips steps and
# shrinks until it does not, and grows again; and interrupted runs, loss scale included,
# go on bit for bit.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config

fp16=(train.precision=fp16 train.epochs=9 optimizer.name=adam optimizer.lr=0.001)
high=("${fp16[@]}" train.loss_scale=524288)
train high 1 "${high[@]}" train.max_steps=8
skipped=$(field high step skipped)
((skipped > 0 && skipped < 8)) || broken "a scale of 2^19: $skipped of 8 steps were skipped"
expect_field "a scale of 2^19" high step loss_scale "$((524288 >> skipped))"
grep -q '"loss":null' "$SCRATCH/high/metrics.jsonl" &&
    broken "a scale of 2^19: a loss is not finite"

train low 1 "${fp16[@]}" train.max_steps=6 train.loss_scale=1024 train.loss_scale_interval=2
expect_field "doubled every other step" low step loss_scale 8192
expect_field "doubled every other step" low step skipped 0

# What was skipped is skipped once: 8 steps are 2 + 6.
train parts 1 "${high[@]}" train.max_steps=2
train parts 1 "${high[@]}" train.max_steps=8
same "8 steps and 2 + 6" high parts
[[ $(losses high) == "$(losses parts)" ]] || broken "8 steps and 2 + 6: the losses differ"
expect_field "8 steps and 2 + 6" parts step skipped "$skipped"

# Clipping: the norm is that of the gradients without their scale,
# and infinite where the step is skipped.
clip=(optimizer.clip_norm=0.5 train.max_steps=6)
train clip_cpu 1 "${clip[@]}" device.backend=cpu
train clip 1 "${clip[@]}"
near "clipping" clip_cpu clip 1e-5
train clip_eager 1 "${clip[@]}" device.cuda_graph=false
same "clipping, recorded and eager" clip clip_eager
train clip_fp16 1 "${clip[@]}" train.precision=fp16 train.loss_scale=1024
follows "clipping in fp16" clip_fp16 clip_cpu 0.01
paste -d " " <(norms clip_fp16) <(norms clip_cpu) |
    awk '{ d = $2 / $4 - 1; if (d > 0.01 || d < -0.01 || $1 != $3) bad = 1 }
        END { exit bad || NR != 6 }' ||
    broken "clipping in fp16: the norms are $(norms clip_fp16 | xargs)," \
        "on the CPU $(norms clip_cpu | xargs)"
train clip_high 1 "${high[@]}" "${clip[@]}" train.max_steps=8
(($(field clip_high step skipped) > 0)) || broken "clipping: no step was skipped"
[[ $(norms clip_high | grep -c null) == "$(field clip_high step skipped)" ]] ||
    broken "clipping: $(field clip_high step skipped) steps were skipped," \
        "the norms are $(norms clip_high | xargs)"

# Stopped by a signal with a step under way, and continued.
train_in_background broken_off 1 train.epochs=90000
wait_for_step broken_off 3
kill -TERM "$pid"
wait_to_end 100
[[ $code == 75 ]] || broken "stopped by a signal: exit code $code, expected 75"
sgd=(train.epochs=90000 "train.max_steps=$(($(field broken_off step step) + 9))")
train unbroken 1 "${sgd[@]}"
train broken_off 1 "${sgd[@]}"
expect_text "stopped by a signal" 1 "resumed from"
same "stopped by a signal and continued" unbroken broken_off
[[ $(losses unbroken) == "$(losses broken_off)" ]] ||
    broken "stopped by a signal and continued: the losses differ"

# A run of another precision goes on in fp16, and the CPU goes on with what the GPU began.
train other 1 "${fp16[@]}" train.precision=bf16 train.max_steps=2
train other 1 "${fp16[@]}" train.max_steps=4
expect_text "another precision" 1 "train.precision was"
expect_field "another precision" other step loss_scale 65536
train other 1 "${fp16[@]}" train.precision=fp32 device.backend=cpu train.max_steps=6
expect_field "from GPU to CPU" other "done" code 0

# Evaluation by itself and beside training.
train eval 1 train.epochs=1 train.max_steps=0 train.batch_per_rank=16 data.format=synthetic
settings eval_cuda train.batch_per_rank=16
expect "eval on the GPU" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest eval)"
settings eval_cpu train.batch_per_rank=24 device.backend=cpu
expect "eval on the CPU" 0 run 1 eval "${sets[@]}" --checkpoint "$(latest eval)"
for run in eval_cuda eval_cpu; do expect_field "$run" "$run" eval images 64; done
expect_field "eval" eval_cuda eval top1 "$(field eval_cpu eval top1)"
awk -v a="$(field eval_cuda eval loss)" -v b="$(field eval_cpu eval loss)" \
    'BEGIN { d = (a - b) / b; exit !(d < 1e-5 && d > -1e-5) }' ||
    broken "eval: loss $(field eval_cuda eval loss) on the GPU," \
        "$(field eval_cpu eval loss) on the CPU"
exit "$failed"
