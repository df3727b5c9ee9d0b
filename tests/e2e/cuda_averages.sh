#!/usr/bin/env bash
# cuda_averages.sh - averaged weights and Lookahead on the device: as on the CPU, whether a step is
# recorded or not and how far the host runs ahead; evaluated by the weights that are swapped in; and
# steps that a loss scale skips do not count.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh
make_tiny_config
sed -i 's/synthetic_images: 64/synthetic_images: 24/' "$SCRATCH/small.yaml"

averages=(ema.decay=0.7 ema.warmup=true optimizer.lookahead=airbench optimizer.lookahead_steps=3
    data.val="$SCRATCH" train.eval_every=0 train.epochs=9)
train cpu 1 "${averages[@]}" device.backend=cpu
train fp32 1 "${averages[@]}"
near "fp32" fp32 cpu 1e-5
for precision in fp32 bf16; do
    run="steps_$precision"
    [[ $precision == fp32 ]] || train "$precision" 1 "${averages[@]}" "train.precision=$precision"
    train "$run" 1 "${averages[@]}" "train.precision=$precision" device.cuda_graph=false \
        checkpoint.every_steps=1 checkpoint.keep=9
    same "$precision: recorded, and step by step" "$precision" "$run"
    train "$run" 1 "${averages[@]}" "train.precision=$precision" \
        "checkpoint.resume=$SCRATCH/$run/checkpoints/step-00000003.safetensors" \
        "run.dir=$SCRATCH/parts_$precision"
    same "$precision: 6 steps, and 3 + 3" "$precision" "parts_$precision"
    # the 16-bit copies of the weights follow those that are swapped in, and back
    [[ $(field "$precision" eval ema_loss) != "$(field "$precision" eval loss)" ]] ||
        broken "$precision: the average has the loss of the weights"
    for which in ema raw; do
        expect "eval --$which" 0 run 1 eval "$SCRATCH/small.yaml" --checkpoint \
            "$(latest "$precision")" "run.dir=$SCRATCH/$which" "data.val=$SCRATCH" \
            "train.precision=$precision" "--$which"
        key=${which/raw/}
        [[ $(field "$which" eval loss) == "$(field "$precision" eval "${key:+ema_}loss")" ]] ||
            broken "$precision: eval --$which says another loss than the run"
        rm -r "${SCRATCH:?}/$which"
    done
done

# The first steps overflow. In the first update the average takes the weights, whatever was skipped
# before it; if those counted it would be between them and the first ones.
scaled=(train.precision=fp16 train.loss_scale=16777216 ema.decay=0.5 data.val="$SCRATCH"
    train.eval_every=0 train.epochs=9)
train scaled 1 "${scaled[@]}" train.max_steps=10
skipped=$(field scaled step skipped)
((skipped > 1 && skipped < 9)) || broken "the loss scale skips $skipped of 10 steps"
train first 1 "${scaled[@]}" train.max_steps=$((skipped + 1))
expect_field "the first update" first step skipped "$skipped"
for which in ema raw; do
    expect "export --$which" 0 run 1 export "$(latest first)" "$SCRATCH/$which.safetensors" \
        "--$which"
done
cmp -s "$SCRATCH/ema.safetensors" "$SCRATCH/raw.safetensors" ||
    broken "skipped steps count in the average"
train second 1 "${scaled[@]}" train.max_steps=$((skipped + 2))
expect "export" 0 run 1 export "$(latest second)" "$SCRATCH/second.safetensors" --ema
expect "export" 0 run 1 export "$(latest second)" "$SCRATCH/second_raw.safetensors" --raw
cmp -s "$SCRATCH/second.safetensors" "$SCRATCH/second_raw.safetensors" &&
    broken "the second update leaves the average at the weights"
exit "$failed"
