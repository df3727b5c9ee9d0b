#!/usr/bin/env bash
# kill.sh - kill -9 at any moment: the newest checkpoint is complete and the run goes on from it; a
# corrupt one is passed over.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 1
make_config
no_grace
ranks=1
have_mpi && ranks=2
long=(train.epochs=40 checkpoint.every_steps=1 checkpoint.keep=3)
train unbroken "$ranks" train.epochs=40 checkpoint.keep=3

# Moments: milliseconds after the ranks have been started, or (1:) after a new step is recorded;
# whom it hits changes.
moments=(0:0 0:250 1:0 1:3 1:7 1:13 1:23 1:37)
victim=0
for moment in "${moments[@]}"; do
    before=$(field run step step)
    train_in_background run "$ranks" "${long[@]}"
    wait_for_ranks "$ranks"
    [[ $moment == 1:* ]] && wait_for_step run $((before + 2))
    sleep "$(awk -v ms="${moment#*:}" 'BEGIN { print ms / 1000 }')"
    victim=$(((victim + 1) % ranks))
    kill -9 "${processes[victim]}" || broken "$moment: rank $victim had ended by itself"
    wait_to_end 60
    ((code != 0)) || broken "$moment: exit code 0 for a killed run"
    expect_gone "$moment" "${processes[@]}"
    file=$(newest run)
    [[ -n $file ]] || continue
    expect "$moment: the newest checkpoint $file" 0 run 1 inspect checkpoint "$file"
done
file=$(newest run)
step=$(field run step step)
((step > 10 && step < $(field unbroken step step))) ||
    broken "the runs were killed between step 0 and $step: expected some progress and no end"
touch "$file.tmp-1" "$SCRATCH/run/checkpoints/step-99999999.safetensors.tmp-2"
train run "$ranks" "${long[@]}"
expect_text "after eight kills" 1 "resumed from $file at step"
same "after eight kills" unbroken run
[[ $(losses unbroken) == "$(losses run)" ]] || broken "after eight kills: the losses differ"
leftovers=$(find "$SCRATCH/run/checkpoints" -name '*.tmp-*')
[[ -z $leftovers ]] || broken "temporary files stay: $leftovers"
[[ $(find "$SCRATCH/run/checkpoints" -name 'step-*' | wc -l) -le 3 ]] ||
    broken "more than three checkpoints stay"

# Corrupt files. Three checkpoints: the newest is cut off,
# the one before has a flipped bit in its weights.
for n in 1 2 3; do train short 1 "train.max_steps=$n" schedule.name=constant; done
dir=$SCRATCH/short/checkpoints
cp -r "$SCRATCH/short" "$SCRATCH/flipped"
size=$(stat -c %s "$dir/step-00000003.safetensors")
truncate -s $((size - 1000)) "$dir/step-00000003.safetensors"
flip_byte "$dir/step-00000002.safetensors" $((size / 2))
for bad in 2 3; do
    expect_error "inspect a corrupt file" 65 "$dir/step-0000000$bad.safetensors" \
        1 inspect checkpoint "$dir/step-0000000$bad.safetensors"
    train_fails "named$bad" 65 "$dir/step-0000000$bad.safetensors" \
        "$ranks" "checkpoint.resume=$dir/step-0000000$bad.safetensors"
    settings "eval$bad" "data.val=$SCRATCH/data/val"
    expect_error "evaluate a corrupt file" 65 "$dir/step-0000000$bad.safetensors" \
        "$ranks" eval "${sets[@]}" \
        --checkpoint "$dir/step-0000000$bad.safetensors"
done
train short 1 train.max_steps=4 schedule.name=constant
expect_text "two corrupt files" 1 "step-00000003.safetensors: "
expect_text "two corrupt files" 1 "falling back to $dir/step-00000002.safetensors"
expect_text "two corrupt files" 1 "falling back to $dir/step-00000001.safetensors"
expect_text "two corrupt files" 1 "resumed from $dir/step-00000001.safetensors at step 1"
train whole 1 train.max_steps=4 schedule.name=constant
same "two corrupt files" whole short

# A flipped byte anywhere is seen: length, header, names, weights, the last byte.
dir=$SCRATCH/flipped/checkpoints
for offset in 0 3 9 40 200 5000 $((size - 1)); do
    cp "$dir/step-00000003.safetensors" "$SCRATCH/one.safetensors"
    flip_byte "$SCRATCH/one.safetensors" "$offset"
    expect_error "byte $offset" 65 "$SCRATCH/one.safetensors" 1 inspect checkpoint \
        "$SCRATCH/one.safetensors"
done

# None left that can be used: an error, not a fresh start over the old run.
for n in 1 2 3; do : > "$dir/step-0000000$n.safetensors"; done
train_fails flipped 65 "$dir/step-00000003.safetensors" "$ranks" train.max_steps=4
exit "$failed"
