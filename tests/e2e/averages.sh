#!/usr/bin/env bash
# averages.sh - averaged weights and Lookahead in whole runs: parts are the same run to the bit,
# also of one that was killed or went back; ranks do not matter; what is evaluated is what eval and
# export give; what cannot be is named.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config
val="data.val=$SCRATCH/data/val"
steady=(schedule.name=constant train.epochs=9 checkpoint.every_steps=4 train.eval_every=0 "$val")

# top1 RUN KEY - of each evaluation.
top1()
{
    sed -nE "/\"event\":\"eval\"/s/.*\"$2\":([^,}]*).*/\1/p" "$SCRATCH/$1/metrics.jsonl"
}

# tensors RUN PREFIX - how many of its newest checkpoint have names that begin so.
tensors()
{
    run 1 inspect checkpoint "$(latest "$1")" | grep -cE "^ *$2"
}

# ---- parts are the whole, whatever the rule ----

rules=("ema.decay=0.9 ema.warmup=true"
    "ema.decay=0.99 ema.rule=torchvision ema.every=3 schedule.warmup_epochs=0.3"
    "ema.half_life=3 ema.every=2 optimizer.lookahead=timm optimizer.lookahead_steps=3"
    "optimizer.lookahead=airbench optimizer.lookahead_steps=4")
for i in "${!rules[@]}"; do
    read -ra keys <<< "${rules[i]}"
    train "whole$i" 1 "${steady[@]}" "${keys[@]}" train.max_steps=10
    if ((i < 3)); then # the last rule looks at the end of the run
        train "parts$i" 1 "${steady[@]}" "${keys[@]}" train.max_steps=5
        train "parts$i" 1 "${steady[@]}" "${keys[@]}" train.max_steps=10
    else
        train_in_background "parts$i" 1 "${steady[@]}" "${keys[@]}" train.max_steps=10
        wait_for_step "parts$i" 6
        kill -9 "$pid"
        wait "$pid" 2> /dev/null
        train "parts$i" 1 "${steady[@]}" "${keys[@]}" train.max_steps=10
    fi
    same "${rules[i]}: 10 steps, and parts" "whole$i" "parts$i"
done
look=("${steady[@]}" optimizer.lookahead=timm optimizer.lookahead_steps=3 train.max_steps=10)
train half 1 "${look[@]}"
train alone 1 "${look[@]}" optimizer.lookahead_alpha=1
train rare 1 "${look[@]}" optimizer.lookahead_steps=100
train often 1 "${steady[@]}" optimizer.lookahead=airbench optimizer.lookahead_steps=2 \
    train.max_steps=10
train plain 1 "${steady[@]}" train.max_steps=10
far "Lookahead changes what is trained" half alone 1e-3
[[ $(losses alone) == "$(losses plain)" ]] || broken "an alpha of 1 changes what is trained"
[[ $(losses rare) == "$(losses plain)" ]] || broken "Lookahead acts before its turn"
far "airbench's counts its steps" often whole3 1e-3
[[ $(tensors whole0 ema.) -gt 90 && $(tensors whole0 lookahead.) == 0 ]] ||
    broken "there is no average in the checkpoint"
[[ $(tensors whole2 lookahead.) -gt 50 && $(tensors whole2 lookahead.bn1.running) == 0 ]] ||
    broken "timm's Lookahead: not of the parameters alone"
[[ $(tensors whole3 lookahead.bn1.running) == 2 ]] ||
    broken "airbench's Lookahead: not of running statistics"

# Killed in the middle, and continued from what is there.
killed=("${steady[@]}" train.epochs=9000 ema.decay=0.9 optimizer.lookahead=timm
    optimizer.lookahead_steps=3)
train_in_background killed 1 "${killed[@]}" train.max_steps=90000
wait_for_step killed 9
kill -9 "$pid"
wait "$pid" 2> /dev/null
end=$(($(field killed step step) + 9))
train killed 1 "${killed[@]}" "train.max_steps=$end"
train unbroken 1 "${killed[@]}" "train.max_steps=$end"
(($(events killed resume) == 1)) || broken "killed: it was not in the middle of the run"
same "killed and continued" unbroken killed

# A run that diverged takes the average back with it.
back=("${steady[@]}" checkpoint.every_steps=2 train.on_nan=rollback train.rollback_lr=0.001
    ema.decay=0.9)
train back 1 "${back[@]}" train.max_steps=4
train back 1 "${back[@]}" train.max_steps=12 optimizer.lr=1e6
(($(events back diverged) > 0)) || broken "back: it has not diverged"
run 1 eval "$SCRATCH/back" --ema "$val" > "$out" 2>&1 || broken_run "back: its average is no good"

# An average that begins in the middle starts at the weights there.
train late 1 "${steady[@]}" train.max_steps=4
train late 1 "${steady[@]}" train.max_steps=8 ema.decay=0.9
expect_text "an average that begins late" 1 "has no ema.*; that average starts at its weights"
train late 1 "${steady[@]}" train.max_steps=10
expect_text "the average given up again" 0 "eval of averaged weights"

# ---- ranks ----

if have_mpi; then
    ranks=("${steady[@]}" model.bn=frozen ema.decay=0.8 optimizer.lookahead=timm
        optimizer.lookahead_steps=2 train.max_steps=4)
    train one 1 "${ranks[@]}"
    train two 2 "${ranks[@]}" train.batch_per_rank=4
    near "1 x 8 and 2 x 4" one two 1e-5
    train two_parts 2 "${steady[@]}" ema.decay=0.8 train.max_steps=5
    train two_parts 2 "${steady[@]}" ema.decay=0.8 train.max_steps=8
    train two_whole 2 "${steady[@]}" ema.decay=0.8 train.max_steps=8
    same "parts on two ranks" two_whole two_parts
fi

# ---- what is evaluated is what the commands take ----

train shown 1 schedule.name=constant train.epochs=3 ema.decay=0.9 "$val" optimizer.lr=0.05
[[ $(top1 shown top1) != "$(top1 shown ema_top1)" ]] ||
    broken "the average is as good as the weights: $(top1 shown top1)"
best=$(top1 shown ema_top1 | sort -g | tail -n 1)
run 1 inspect checkpoint "$SCRATCH/shown/checkpoints/best" > "$out"
expect_text "best is chosen by the average" 1 "best_top1 $(printf '%.6f' "$best")"
train by_raw 1 schedule.name=constant train.epochs=3 ema.decay=0.9 "$val" optimizer.lr=0.05 \
    ema.best=false
run 1 inspect checkpoint "$SCRATCH/by_raw/checkpoints/best" > "$out"
expect_text "best is chosen by the weights" 1 \
    "best_top1 $(printf '%.6f' "$(top1 by_raw top1 | sort -g | tail -n 1)")"

# evaluated RUN ARGS... - top-1 of the newest checkpoint by convoy eval, of the average too where it
# is evaluated, as a last record.
evaluated()
{
    local name=$1
    shift
    expect "eval $name $*" 0 run 1 eval "$SCRATCH/$name" --checkpoint "$(latest "$name")" \
        "$val" "$@"
    tail -n 1 "$SCRATCH/$name/metrics.jsonl" | grep -oE '"(ema_)?top1":[^,}]*' | cut -d: -f2 | xargs
}
raw=$(top1 shown top1 | tail -n 1) ema=$(top1 shown ema_top1 | tail -n 1)
[[ $(evaluated shown --raw) == "$raw" ]] || broken_run "eval --raw: not $raw"
[[ $(evaluated shown --ema) == "$ema" ]] || broken_run "eval --ema: not $ema"
[[ $(evaluated shown) == "$raw $ema" ]] || broken_run "eval: not $raw and the average's $ema"
expect_text "eval says what others take" 1 "use its averaged weights"
both=$(for key in top1 ema_top1; do top1 by_raw $key | sed -n 3p; done | xargs)
[[ $(evaluated by_raw) == "$both" ]] ||
    broken_run "eval with ema.best=false: not the weights and the average"
expect_text "eval with ema.best=false" 1 "use its trained weights"

# An average longer than its run says so at the start and at the end.
train slow 1 model.name=mlp schedule.name=constant train.epochs=6 ema.decay=0.9999 \
    "data.val=$SCRATCH/data/train" optimizer.lr=0.02 train.patience=5
expect_text "too short for its average" 1 "% of the averaged weights are still the initial ones"
expect_text "what would do" 1 "ema.decay=0.94 or ema.warmup=true would be enough"
expect_text "last words have both" 1 "(step 15), of trained weights"
expect_text "patience by averages" 1 "% of the averaged weights; the run ends after"
# Resumed with another decay it is as old as it was: the checkpoint says so.
train slow 1 model.name=mlp schedule.name=constant train.epochs=8 ema.decay=0.99995 \
    ema.best=false "$val"
expect_text "resumed" 1 "% of the averaged weights are still the initial ones"

for which in ema raw; do
    expect "export --$which" 0 run 1 export "$(latest shown)" "$SCRATCH/$which.safetensors" \
        "--$which"
    got=$(run 1 eval "$SCRATCH/small.yaml" --checkpoint "$SCRATCH/$which.safetensors" \
        "run.dir=$SCRATCH/elsewhere" "$val" | grep -o 'top-1 [0-9.]*')
    want=$(awk -v x="${!which}" 'BEGIN { printf "top-1 %.2f", 100 * x }')
    [[ $got == "$want" ]] || broken "export --$which: $got, expected $want"
done
expect "export" 0 run 1 export "$(latest shown)" "$SCRATCH/default.safetensors"
expect_text "export" 1 "averaged weights"
cmp -s "$SCRATCH/default.safetensors" "$SCRATCH/ema.safetensors" ||
    broken "export: not the averaged weights"
cmp -s "$SCRATCH/raw.safetensors" "$SCRATCH/ema.safetensors" &&
    broken "export: --raw and --ema are the same"
image=$(find "$SCRATCH/data/val" -name '*.jpg' | sort | head -n 1)
[[ $(run 1 predict "$(latest shown)" "$image") == "$(run 1 predict "$(latest shown)" "$image" \
    --ema)" ]] || broken "predict: not by the average"
[[ $(run 1 predict "$(latest shown)" "$image" --raw) != "$(run 1 predict "$(latest shown)" \
    "$image")" ]] || broken "predict --raw: by the average"

# ---- what cannot be ----

train_fails half 65 "optimizer.lookahead was timm and is airbench: " 1 "${look[@]}" \
    optimizer.lookahead=airbench train.max_steps=20
train_fails never 64 "optimizer.lookahead_steps: 11 steps, but the run has 10" 1 "${steady[@]}" \
    optimizer.lookahead=airbench optimizer.lookahead_steps=11 train.max_steps=10

expect_error "export of what there is not" 65 "has no averaged weights (--ema)" 1 \
    export "$(latest plain)" "$SCRATCH/none.safetensors" --ema
expect_error "eval of what there is not" 65 "has no averaged weights (--ema)" 1 \
    eval "$SCRATCH/plain" --ema "$val"
expect_error "predict by what there is not" 65 "has no averaged weights (--ema)" 1 \
    predict "$(latest plain)" "$image" --ema
expect_error "both" 64 "give either --ema or --raw" 1 \
    export "$(latest shown)" "$SCRATCH/none.safetensors" --ema --raw
train_fails unseen 64 "ema.decay: the averaged weights would never be evaluated" 1 ema.decay=0.9
train_fails unseen 64 "ema.half_life: the averaged weights would never be evaluated" 1 \
    ema.half_life=5
train_fails twice 64 "ema.half_life cannot be combined with ema.decay" 1 \
    ema.decay=0.9 ema.half_life=5 "$val"
train_fails half 64 "ema.half_life requires ema.rule: timm" 1 ema.half_life=5 \
    ema.rule=torchvision "$val"
train_fails warmup 64 "ema.warmup requires ema.rule: timm" 1 ema.decay=0.9 ema.rule=torchvision \
    ema.warmup=true "$val"
exit "$failed"
