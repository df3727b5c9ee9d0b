#!/usr/bin/env bash
# pth.sh - weights as PyTorch saves them, bare and in checkpoints of training programs, with and
# without averages: predict, eval and model.init take them; what is not weights is refused.
source tests/e2e/lib/common.sh
command -v python3 > /dev/null || { echo "not tested: files of PyTorch: no python3" && exit 0; }
make_data "$SCRATCH/data" 4 2
make_config
data=$SCRATCH/data
train first 1
expect "export" 0 run 1 export "$SCRATCH/first" "$SCRATCH/weights.safetensors"
python3 tests/e2e/lib/make_pth.py "$SCRATCH/weights.safetensors" "$SCRATCH" > "$out" 2>&1 ||
    broken_run "make_pth.py"
picture=$(find "$data/train" -name '*.jpg' | sort | head -1)
how=("$picture" --model resnet20 --precision fp32 --csv data.image_size=32 data.eval_resize=32
    data.mean=0.5 data.std=0.25)

# of WEIGHTS.pth [OPTION] - label and probability of each class; what was said stays in $out
of()
{
    expect "predict $*" 0 run 1 predict "$SCRATCH/$1" "${how[@]}" "${@:2}"
    grep 'jpg,' "$out" | cut -d, -f4,5
}
want=$(of weights.safetensors)
zeros=$(of timm.pth --raw)
[[ -n $want && -n $zeros && $want != "$zeros" ]] || broken "zeros predict what weights predict"
for file in plain.pth old.pth; do
    [[ $(of $file) == "$want" ]] || broken "$file predicts something else"
    grep -q averaged "$out" && broken_run "$file has averaged weights"
    [[ $(of $file --raw) == "$want" ]] || broken "$file --raw predicts something else"
    expect_error "$file --ema" 65 "$file: has no averaged weights" 1 predict "$SCRATCH/$file" \
        "${how[@]}" --ema
done
# FILE, then what auto, --ema and --raw find: averaged ones are taken where nobody chooses
for row in "timm.pth want want zeros" "reference.pth zeros zeros want" \
    "lightning.ckpt want want zeros" "beside.bin want want zeros"; do
    read -r file auto ema raw <<< "$row"
    [[ $(of "$file") == "${!auto}" ]] || broken "$file: not the averaged weights"
    expect_text "$file" 1 "$file: using its averaged weights; it has the trained ones too"
    expect_text "$file" 0 "are not used"
    [[ $(of "$file" --ema) == "${!ema}" ]] || broken "$file --ema: not the averaged weights"
    [[ $(of "$file" --raw) == "${!raw}" ]] || broken "$file --raw: not the trained weights"
    expect_text "$file --raw" 1 "$file: using its trained weights; it has averaged ones too"
done

# evaluate FILE [OPTION] - its result line
evaluate()
{
    expect "eval $*" 0 run 1 eval "$SCRATCH/small.yaml" --checkpoint "$SCRATCH/$1" "${@:2}" \
        --set "run.dir=$SCRATCH/evals" --set "data.val=$data/val" --set model.classes=10
    grep -o 'loss [0-9.]*, top-1 [0-9.]* %' "$out"
}
want=$(evaluate weights.safetensors)
[[ -n $want && $(evaluate timm.pth) == "$want" && $(evaluate reference.pth --raw) == "$want" ]] ||
    broken "eval: other weights"
[[ $(evaluate timm.pth --raw) != "$want" ]] || broken "eval --raw: the averaged weights"

# A run of one step with a rate of zero keeps the weights that it starts from.
start() # RUN FILE KEY=VALUE...
{
    train "$1" 1 "model.init=$SCRATCH/$2" train.max_steps=1 optimizer.lr=1e-30 model.bn=frozen \
        optimizer.weight_decay=0 "${@:3}"
}
start plain plain.pth
expect_text "init" 1 "weights from $SCRATCH/plain.pth"
for init in auto ema raw; do start $init timm.pth model.init_weights=$init; done
"$tools"/make_ckptdiff "$(latest plain)" "$(latest auto)" > "$out" 2>&1 || broken_run "init: auto"
"$tools"/make_ckptdiff "$(latest plain)" "$(latest ema)" > "$out" 2>&1 || broken_run "init: ema"
"$tools"/make_ckptdiff "$(latest plain)" "$(latest raw)" > "$out" 2>&1 && broken "init: not raw"
train_fails none 65 "plain.pth: has no averaged weights" 1 "model.init=$SCRATCH/plain.pth" \
    model.init_weights=ema
start backbone backbone.pt
expect_text "a backbone" 1 "layers that it does not have start from scratch: fc"
expect_error "predict by a backbone" 65 "missing: fc.weight, fc.bias" 1 predict \
    "$SCRATCH/backbone.pt" "${how[@]}"
# of a checkpoint of ours too
train averaged 1 ema.decay=0.5 train.max_steps=3 "data.val=$data/val"
own=$(latest averaged)
run 1 export "$own" "$SCRATCH/ema.safetensors" --ema > "$out" 2>&1 || broken_run "export --ema"
start own_auto "${own#"$SCRATCH/"}"
start own_raw "${own#"$SCRATCH/"}" model.init_weights=raw
start own_ema "${own#"$SCRATCH/"}" model.init_weights=ema
expect_text "init by averages" 1 "using its averaged weights"
start exported ema.safetensors
for pair in "own_auto own_raw" "own_ema exported"; do
    read -r a b <<< "$pair"
    "$tools"/make_ckptdiff "$(latest "$a")" "$(latest "$b")" > "$out" 2>&1 || broken_run "$pair"
done
"$tools"/make_ckptdiff "$(latest own_ema)" "$(latest own_raw)" > "$out" 2>&1 &&
    broken "init: the averaged weights of a checkpoint are the trained ones"

# What is not weights, or not all of them.
refused() # FILE TEXT
{
    expect_error "predict $1" 65 "$1: $2" 1 predict "$SCRATCH/$1" "${how[@]}"
    train_fails "by_$1" 65 "model.init: $SCRATCH/$1: $2" 1 "model.init=$SCRATCH/$1"
    expect_error "inspect $1" 65 "$1: $2" 1 inspect checkpoint "$SCRATCH/$1"
}
refused third.pth "holds fractions.Fraction, which is not part of weights"
refused parts.pth "holds sharded tensors (torch.distributed.tensor.DTensor), as FSDP saves"
refused cut.pth "a zip archive without a directory; is it truncated?"
expect_error "export" 65 "plain.pth: saved by torch.save, not a checkpoint of Convoy" 1 export \
    "$SCRATCH/plain.pth" "$SCRATCH/again.safetensors"
expect "inspect" 0 run 1 inspect checkpoint "$SCRATCH/timm.pth"
expect_text "inspect" 1 "  conv1.weight "
expect_text "inspect" 1 "  ema.conv1.weight "
exit "$failed"
