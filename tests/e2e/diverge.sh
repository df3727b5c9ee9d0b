#!/usr/bin/env bash
# diverge.sh - a training that diverges says so at once, ends with 71 and keeps the checkpoints that
# are good; with train.on_nan=rollback it goes back and gets past it, exactly.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config

# checkpoints RUN - the names of the files of a run.
checkpoints()
{
    (cd "$SCRATCH/$1/checkpoints" && echo step-*)
}

# all_finite WHAT RUN - no checkpoint of the run holds what is not finite: predict would name it.
all_finite()
{
    local file image
    image=$(find "$SCRATCH/data/val" -name '*.jpg' | sort | head -n 1)
    for file in "$SCRATCH/$2"/checkpoints/{step-*.safetensors,latest,best}; do
        [[ -e $file ]] || continue
        run 1 predict "$file" "$image" > "$out" 2>&1
        expect_text "$1: $(basename "$file")" 0 "is NaN or infinite"
    done
}

# good RUN RANKS - a finished run of 6 steps with checkpoints behind 2, 4 and 6.
steady=(schedule.name=constant train.epochs=9 checkpoint.every_steps=2 checkpoint.keep=3
    "data.val=$SCRATCH/data/val" train.eval_every=0)
good()
{
    train "$1" "$2" "${steady[@]}" train.max_steps=6
}

ranks=(1)
have_mpi && ranks=(1 2)
for n in "${ranks[@]}"; do
    # A finished run goes on with a learning rate that is far too high: what is good stays.
    good "stop$n" "$n"
    before=$(checkpoints "stop$n")
    train_fails "stop$n" 71 "training has diverged: " "$n" "${steady[@]}" optimizer.lr=1e6 \
        train.max_steps=30
    step=$(field "stop$n" diverged step)
    ((step >= 7 && step <= 12)) || broken "stop on $n: noticed at step $step"
    expect_one_error "stop on $n" "step $step: training has diverged"
    expect_one_error "stop on $n" "$(field "stop$n" diverged tensor)"
    [[ $(field "stop$n" diverged tensor) == *.* ]] || broken "stop on $n: names no tensor"
    expect_field "stop on $n" "stop$n" diverged then stop
    expect_field "stop on $n" "stop$n" "done" code 71
    expect_field "stop on $n: no step behind it" "stop$n" step step "$step"
    sound_metrics "stop$n"
    all_finite "stop on $n" "stop$n"
    [[ " $(checkpoints "stop$n") " == *" ${before##* } "* ]] ||
        broken "stop on $n: of $before there is $(checkpoints "stop$n")"

    # Where nothing looks at the parameters, the loss of a step says it.
    good "loss$n" "$n"
    train_fails "loss$n" 71 "training has diverged: the loss is" "$n" "${steady[@]}" \
        optimizer.lr=1e6 train.max_steps=30 checkpoint.every_steps=0 checkpoint.every_epochs=0
    expect_one_error "loss on $n" "the first tensor that is not finite is "
    expect_field "loss on $n" "loss$n" diverged loss null
    [[ $(checkpoints "loss$n") == "$before" ]] ||
        broken "loss on $n: of $before there is $(checkpoints "loss$n")"
    train "loss$n" "$n" "${steady[@]}" train.max_steps=8 # and what is left goes on

    # Going back, each time with a thousandth of the rate, and further where that was not enough.
    back=("${steady[@]}" optimizer.lr=1e6 train.on_nan=rollback train.rollback_lr=0.001)
    train "back$n" "$n" "${back[@]}" train.max_steps=12 monitor.tensorboard=true
    count=$(field "back$n" diverged rollbacks)
    ((count >= 2 && count <= 3)) || broken "back on $n: went back $count times"
    expect_text "back on $n" "$count" "; rollback "
    [[ $(events "back$n" diverged) == "$count" && $(events "back$n" resume) == "$count" ]] ||
        broken "back on $n: not one resume for each time"
    expect_field "back on $n" "back$n" diverged then rollback
    restarts=$(LC_ALL=C grep -aoP '\x3a\x02\x08\x01' "$SCRATCH/back$n"/tensorboard/* | wc -l)
    ((restarts == count + 1)) || broken "back on $n: TensorBoard hears of $restarts times"
    expect_field "back on $n" "back$n" step lr "$(awk -v f="$(field "back$n" diverged lr_factor)" \
        'BEGIN { printf "%.12g", f * 1e6 }')"
    all_finite "back on $n" "back$n"
    # The same, stopped behind the last time and continued: the same bits, the factor in force.
    train "parts$n" "$n" "${back[@]}" train.max_steps=10
    train "parts$n" "$n" "${back[@]}" train.max_steps=12
    [[ $(events "parts$n" diverged) == "$count" ]] || broken "parts on $n: diverged again"
    expect_text "parts on $n" 1 "the learning rate has a factor of"
    same "rollback, whole and in parts on $n" "back$n" "parts$n"
    [[ $(losses "back$n") == "$(losses "parts$n")" ]] ||
        broken "rollback, whole and in parts on $n: the losses differ"

    # More often than allowed.
    train_fails "limit$n" 71 "already rolled back 2 times (train.rollback_limit)" "$n" \
        "${steady[@]}" optimizer.lr=1e6 train.on_nan=rollback train.rollback_lr=0.9 \
        train.rollback_limit=2
    [[ $(events "limit$n" diverged) == 3 ]] || broken "limit on $n: $(events "limit$n" diverged)"
    all_finite "limit on $n" "limit$n"
done

# With one checkpoint to be kept there is still one behind the newest.
train one 1 "${back[@]}" train.max_steps=12 checkpoint.keep=1
expect_field "one" one "done" code 0

# Where the user has taken all checkpoints away there is nothing to go back to.
train_fails gone 65 "there is no checkpoint left to roll back to" 1 "${back[@]}" \
    train.max_steps=12 checkpoint.every_steps=0 checkpoint.every_epochs=0 \
    "checkpoint.on_save=rm \"\$CONVOY_CHECKPOINT\"" log.every=1

# Accumulated gradients, images that grow, and none of the run that was in this folder before.
train grow 1 "${steady[@]}" train.max_steps=8
train grow 1 "${back[@]}" train.max_steps=32 train.accumulate=2 checkpoint.resume=none \
    train.batch_per_rank=4 data.progressive_sizes=16 data.progressive_until=1
[[ $(field grow diverged rollbacks) -ge 1 ]] || broken "grow: did not go back"
expect_field "grow" grow "done" code 0
all_finite "grow" grow

# Where the norm of the gradients is measured it is looked at. (At ten times the rate the loss may
# be the first to go.)
good norm 1
train_fails norm 71 "training has diverged: the norm of the gradients is" 1 "${steady[@]}" \
    optimizer.lr=1e5 train.max_steps=30 optimizer.clip_norm=1e30 checkpoint.every_steps=0
sound_metrics norm

# Files that no run of ours has left: their checksums are right, what they hold is not.
# bad_checkpoint FILE TENSOR - makes its first element NaN.
bad_checkpoint()
{
    python3 - "$1" "$2" << 'END'
import json, struct, sys
sys.path.insert(0, "scripts/golden")
from crc32c import crc32c
path, name = sys.argv[1:]
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
begin = 8 + size + header[name]["data_offsets"][0]
data[begin:begin + 4] = struct.pack("<f", float("nan"))
sums = header["__metadata__"]
text = data[8:8 + size]
text = text.replace(sums["crc32c"].encode(), b"%08x" % crc32c(bytes(data[8 + size:])), 1)
text = text.replace(sums["header_crc32c"].encode(), b"0" * 8, 1)
data[8:8 + size] = text.replace(b"0" * 8, b"%08x" % crc32c(bytes(text)), 1)
open(path, "wb").write(data)
END
}
if command -v python3 > /dev/null; then
    good old 1
    bad_checkpoint "$SCRATCH/old/checkpoints/step-00000006.safetensors" bn1.running_var
    bad_checkpoint "$SCRATCH/old/checkpoints/step-00000004.safetensors" optimizer.momentum.fc.bias
    cp "$SCRATCH/old/checkpoints/step-00000006.safetensors" "$SCRATCH/bad.safetensors"
    train old 1 "${steady[@]}" train.max_steps=8
    expect_text "old" 1 "tensor bn1.running_var is NaN or infinite; falling back to"
    expect_text "old" 1 "tensor optimizer.momentum.fc.bias is NaN or infinite; falling back to"
    expect_field "old" old resume step 2
    train_fails named 65 "tensor bn1.running_var is NaN or infinite" 1 "${steady[@]}" \
        "checkpoint.resume=$SCRATCH/bad.safetensors"
else
    echo "not tested: checkpoints of NaN: no python3"
fi
exit "$failed"
