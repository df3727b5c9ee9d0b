#!/usr/bin/env bash
# same_runs.sh OLD NEW [PATTERN] - shows that a restructuring has changed nothing: two convoy
# programs, built before and after it, do the same small things on the CPU, and what they leave is
# compared.
#
#   git worktree add ../before COMMIT && make -C ../before && make all tools
#   scripts/dev/same_runs.sh ../before/convoy ./convoy
#
# Checkpoints must be equal bit for bit, also of runs that were stopped and of runs that NEW goes on
# with where OLD has stopped; and but for times and rates records, configs, logs, help, descriptions
# of networks and of the memory that runs take, and the answers to wrong input. Config files and
# tests/e2e/bad_*.sh are those beside OLD if there are any, as they speak OLD's words;
# scripts/dev/renamed_words.txt says which are others in NEW. Needs python3, and build/make_* (or
# CONVOY_TOOLS). Takes four minutes of processor time; PATTERN, a regular expression, chooses by
# name.
# The last line is "N passed, N failed, N skipped"; what differs, with its data, stays in
# build/same-runs-*.
set -uo pipefail
only=${3:-} old=$(realpath "${1:-.}") new=$(realpath "${2:-.}")
if [[ ! -f $old || ! -x $old || ! -f $new || ! -x $new ]]; then
    echo "usage: same_runs.sh OLD NEW [PATTERN]" >&2
    exit 64
fi
cd "$(dirname "$0")/../.." || exit 1
tree=$(dirname "$old") work=$PWD/build/same-runs-$$ compare=$PWD/scripts/dev/same_folders.py
[[ -e $tree/tests/e2e/bad_config.sh ]] || tree=$PWD
CONVOY_TOOLS=$(realpath "${CONVOY_TOOLS:-build}")
export CONVOY_TOOLS TREE=$tree NEW=$new WORDS=$PWD/scripts/dev/renamed_words.txt
# As in scripts/e2e.sh; and ranks that are left get no second to end.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export PRTE_MCA_hwloc_default_binding_policy=none OMPI_MCA_odls_base_sigkill_timeout=0
source scripts/tally.sh

# ---- two programs, each in folders of its own ----

mkdir -p "$work"/{old,new} "$work"/images/{cifar,idx} "$work/e2e/tests/e2e/lib" || exit 1
ln -s "$old" "$work/old/convoy"
# NEW is told the new names of commands, options and keys.
cat > "$work/new/convoy" << 'END'
#!/usr/bin/env bash
declare -A renamed=()
while IFS=$'\t' read -r from to; do renamed[=$from]=$to; done < <(grep -v '^#' "$WORDS")
words=()
for word; do
    key=${word%%=*}
    words+=("${renamed[=$word]:-${renamed[=$key]:-$key}${word#"$key"}}")
done
exec "$NEW" "${words[@]}"
END
chmod +x "$work/new/convoy"
# What a script of tests/e2e would look at is kept.
cat > "$work/e2e/tests/e2e/lib/common.sh" << 'END'
source "$TREE/tests/e2e/lib/common.sh"
expect()
{
    local code
    "${@:3}" > "$out" 2>&1
    code=$?
    { printf '%s\n' "== $1" "exit code $code" && cat "$out"; } \
        > "$SAID/$(find "$SAID" -type f | wc -l).log"
}
END

# on SIDE FOLDER COMMAND... - a command or function, there, with that side's program as convoy.
on()
{
    mkdir -p "$work/$2" && cd "$work/$2" || exit
    export PATH=$work/$1:$PATH
    "${@:3}" > said.log 2>&1 < /dev/null
}

# both NAME COMMAND... - succeeds on both sides, and leaves the same.
both()
{
    local name=$1 side wrong='' start=$SECONDS
    [[ $name =~ $only ]] || return 0
    for side in old new; do (on "$side" "$side/$name" "${@:2}") || wrong+=" $side"; done
    if python3 "$compare" "$work"/{old,new}/"$name" "$WORDS" > "$work/diff" && [[ -z $wrong ]]; then
        echo "ok   $name ($((SECONDS - start)) s)"
        rm -r "$work"/{old,new}/"$name"
        ((passed += 1))
    else
        echo "FAIL $name${wrong:+, which fails on:$wrong}: see $work/{old,new}/$name"
        sed 's/^/    /' "$work/diff"
        ((failed += 1))
    fi
}

# ---- training: 40 images of ten classes, 10 steps of 4 an epoch; later settings win ----

small=(model.name=resnet20 data.train=../../images/train data.val=../../images/val
    data.image_size=32 data.eval_resize=36 data.mean=0.5 data.std=0.25 data.augment=cifar
    data.threads=1 train.epochs=2 train.batch_per_rank=4 optimizer.lr=0.02 optimizer.lr_scaling=none
    schedule.warmup_epochs=0.3 device.backend=cpu device.threads=1 run.dir=run)
: > "$work/empty.yaml"

# train RANKS KEY=VALUE...
train()
{
    local setting sets=() command=(convoy)
    (($1 == 1)) || command=(mpirun -n "$1" convoy)
    for setting in "${small[@]}" "${@:2}"; do sets+=(--set "$setting"); done
    timeout --kill-after=5 120 "${command[@]}" train ../../empty.yaml "${sets[@]}"
}

# stop ARGS... - a run that a signal ends at a step that time decides, and that is ended by a second
# start. Keeps what does not depend on that step.
stop()
{
    # shellcheck disable=SC2016 # for the shell that convoy starts
    train "$@" checkpoint.every_steps=2 'checkpoint.on_save=kill -USR1 $PPID' > /dev/null 2>&1
    (($? == 75)) && train "$@" > /dev/null || return
    grep -E '"event":"(step|eval)"' run/metrics.jsonl > steps.jsonl
    mv "$(readlink -f run/checkpoints/latest)" end.safetensors && rm -r run
}

# go_on NAME ARGS... - ends a run that OLD has begun; keeps what it writes itself.
go_on()
{
    local file
    cp -r "../../begun/$1/run" run && rm run/log.txt run/metrics.jsonl && train "${@:2}" || return
    for file in "../../begun/$1"/run/checkpoints/step-*; do
        rm -f "run/checkpoints/${file##*/}"
    done
}

# across NAME ARGS... - NEW ends what OLD has begun as OLD does.
across()
{
    # others go on with what across-b0 began
    [[ $1 =~ $only || $1 == across-b0 ]] || return 0
    (on old "begun/$1" train "${@:2}" train.max_steps=3)
    both "$1" go_on "$@"
}

# fewer NAME ARGS... - the same by one rank, of what two have begun.
fewer()
{
    [[ $1 =~ $only ]] || return 0
    (on old "begun/$1" train 2 "${@:2}" train.max_steps=3)
    both "$1" go_on "$1" 1 "${@:2}"
}

# choices KEY - the names that a config key takes, or one that no run succeeds with.
choices()
{
    "$old" inspect config --markdown |
        sed -nE "s/^\| \`$1\` .*\| one of ([^|]*) \|.*/\1/p" | tr -d , | grep . || echo "unknown-$1"
}

# ---- data: JPEG files in several forms; any bytes as pixels in files of CIFAR-100 and MNIST ----

cd "$work/images" || exit 1
{ "$CONVOY_TOOLS/make_shapes" . --train 4 --val 1 --size 48 &&
    "$CONVOY_TOOLS/make_containers" train . &&
    "$old" pack train shards --threads 1; } > "$work/images.txt" || exit 1
for i in {0..39}; do
    printf '\0%b' "\\x$((i % 10))"
    tail -c "+$((97 * i))" tree.tar | head -c 3072
done > cifar/train.bin 2> "$work/images.txt"
(printf '\0\0\10\3\0\0\0\50\0\0\0\34\0\0\0\34' && head -c $((40 * 28 * 28)) tree.tar) \
    > idx/train-images-idx3-ubyte
(printf '\0\0\10\1\0\0\0\50' && printf '\0\1\2\3\4\5\6\7\10\11%.0s' {1..4}) \
    > idx/train-labels-idx1-ubyte
cp cifar/{train,test}.bin
for i in images-idx3 labels-idx1; do cp idx/{train,t10k}-$i-ubyte; done

# ---- command lines, one a line ----

list_help()
{
    local command
    printf '%s\n' "" --version --help nonsense "inspect config" "inspect config --markdown"
    "$old" --tables | sed -nE 's/^command\tconvoy ([^\t]+)\t.*/\1/p' | while read -r command; do
        printf '%s\n' "$command --help" "$command --nonsense"
    done
}

list_networks()
{
    "$old" --tables | sed -nE 's/^more\t  ([^ ]+).*/inspect model \1/p'
    echo inspect model resnet20 --classes 7 --image-size 48 --dot
}

# Each key with two values, of which most are wrong; the config files.
list_keys()
{
    local key='inspect memory ../../empty.yaml --set model.name=mlp --set \1='
    "$old" inspect config | sed -nE "s,^([a-z_]+\.[a-z_]+) = .*,${key}-1e30\n${key}1\,none,p"
    printf 'inspect memory %s --set device.backend=cpu\n' "$tree"/configs/*.yaml
}

# What memory runs take by the states that they keep.
list_memory()
{
    local key sets='--set device.backend=cpu --set data.format=synthetic --set data.val='
    sets+=' --set model.name=resnet20 --set data.image_size=32 --set model.classes=7'
    for key in $(choices optimizer.name | sed 's/[^ ]*/optimizer.name=&/g') ema.decay=0.9 \
        optimizer.{momentum=0,sam_rho=0.05,lookahead={timm,airbench}} train.accumulate=2 \
        model.name=mobilenet_v3_small model.freeze=conv1; do
        echo "inspect memory ../../empty.yaml $sets --set $key"
    done
}

# What is done with a run that OLD has begun, and with data.
list_uses()
{
    local run=../../begun/across-b0/run data=../../images
    local config=$run/config.yaml weights=$run/checkpoints/latest
    printf '%s\n' "inspect checkpoint $weights" "inspect memory $config" \
        "eval $config --checkpoint $weights --set run.dir=run --per-class a.csv --confusion b.csv" \
        "eval $config --checkpoint $weights --set run.dir=run --set data.tta=flip" \
        "predict $weights $data/val/star/0000.jpg $data/val/ring/0000.jpg" \
        "predict $weights $data/val/star/0000.jpg $data/nowhere.jpg --json" \
        "export $weights a.safetensors --names torchvision" "export $weights c.onnx" \
        "export $weights b.safetensors --names timm" \
        "eval $config --checkpoint b.safetensors --set run.dir=run" \
        "inspect dataset $data/"{train,tars,records,shards} \
        "index $data/train --out train.index" "index $data/train --out train.index --check" \
        "pack $data/train shards --threads 1 --verify" \
        "bench loader $config --crc --steps 5 --set data.train=$data/"{train,tree.tar}
}

# answer LIST - what convoy says to each line.
answer()
{
    local words
    while read -ra words; do
        echo "== ${words[*]}"
        convoy "${words[@]}" < /dev/null
        echo "exit code $?"
    done < "$work/$1.list" > "$1.txt" 2>&1
    [[ -s $1.txt ]]
}

# answer_script SCRIPT - what convoy says to a script of tests/e2e.
answer_script()
{
    export SAID=$PWD/said SCRATCH=$work/scratch CONVOY
    CONVOY=$(command -v convoy)
    mkdir "$SAID" "$SCRATCH" && cd "$work/e2e" || return
    bash "$1" > "$work/e2e.txt" 2>&1
    rm -rf "$SCRATCH"
    [[ -e $SAID/0.log ]]
}

# ---- all of it ----

synthetic=(data.format=synthetic data.train= data.val= data.synthetic_images=40 model.classes=7)
mixing=(data.mixup=0.2 data.cutmix=1 data.random_erase=0.5 train.label_smoothing=0.1)
b0=(model.name=efficientnet_b0 model.stochastic_depth=0.3 train.max_steps=4 train.eval_every=0)
grey=(model.name=mlp model.in_channels=1 data.image_size=28 data.eval_resize=28 data.augment=none)
sam=(optimizer.sam_rho=0.05)
few=(train.max_steps=2 train.eval_every=0 train.batch_per_rank=2)
sizes=("data.progressive_sizes=16, 24" "data.progressive_until=1, 2" train.epochs=3)

for name in $(choices optimizer.name); do
    both "optimizer-$name" train 1 "optimizer.name=$name" optimizer.lr=0.005
    across "across-$name" 2 "optimizer.name=$name" optimizer.lr=0.005 train.max_steps=8
done
both sgd-variants train 2 optimizer.nesterov=true optimizer.momentum=0.8 optimizer.decay_skip=none \
    optimizer.lr_scaling=linear
for name in $(choices schedule.name); do
    both "schedule-$name" train 1 "schedule.name=$name" "schedule.milestones=0.5, 1" \
        schedule.gamma=0.2 schedule.power=2 schedule.min_lr=0.001 schedule.decay_epochs=0.5 \
        schedule.warmup_lr=0.001
done
for name in $(choices ema.rule); do
    across "ema-$name" 1 "ema.rule=$name" ema.decay=0.9 optimizer.lookahead=timm
done
across lookahead 2 optimizer.lookahead=airbench optimizer.lookahead_steps=2 schedule.name=constant
across every-state 2 optimizer.name=lamb optimizer.lr=0.005 ema.decay=0.9 ema.warmup=true \
    optimizer.lookahead=timm optimizer.lookahead_steps=2 "${sam[@]}" optimizer.clip_norm=0.5
both sam train 1 "${sam[@]}" optimizer.sam_interval=2
both sam-ranks train 2 "${sam[@]}" comm.bucket_mb=0.2 ema.decay=0.9
fewer fewer-ranks train.batch_mode=global train.global_batch=8 optimizer.name=adamw ema.decay=0.9
both sync train 2 model.bn=sync
both sync-groups train 2 model.bn=sync model.bn_group=1 "${sam[@]}"
for name in $(choices train.loss); do
    both "loss-$name" train 2 "train.loss=$name" train.class_weights=auto data.order=balanced
done
both rates train 1 "optimizer.groups=layer1.*: lr=0.5; *.bias: decay=2" \
    optimizer.head_lr=3 optimizer.layer_decay=0.9 optimizer.decay_skip=mlperf model.freeze=conv1
both clip-accumulate train 2 optimizer.clip_norm=0.5 train.accumulate=2 train.batch_per_rank=2 \
    comm.bucket_mb=0.2 log.file=rank-%r.log
both global-batch train 2 train.batch_mode=global train.global_batch=12 log.format=table
both frozen train 1 model.bn=frozen log.grad_norm=true log.format=epoch train.eval_every=0.4
both resnet18 train 1 model.name=resnet18 model.stem=cifar model.zero_init_last_gamma=true \
    train.max_steps=2
both efficientnet train 2 "${b0[@]}" data.image_size=64 data.eval_resize=64 comm.bucket_mb=4
both tf-efficientnet train 1 "${b0[@]}" model.name=tf_efficientnet_b0 model.dropout=0.5
both mlp train 2 model.name=mlp data.augment=none
both airbench train 2 "${few[@]}" model.name=airbench94 data.augment=airbench
for name in mobilenet_v3_small regnet_y_400mf deit_tiny_patch16_224; do
    both "$name" train 1 "${few[@]}" "model.name=$name" data.augment=none
done
both bf16 train 2 train.precision=bf16 device.emulate=true train.max_steps=3 train.eval_every=0
for name in $(choices data.auto_augment); do
    both "augment-$name" train 1 "data.auto_augment=$name" "data.color_jitter=0.4, 0.4, 0.4, 0.1" \
        data.auto_augment_fill=9 data.autoaugment_policy=cifar10 data.threads=2
done
both mixing train 2 "${mixing[@]}" data.repeated_augmentation=2 data.auto_augment=randaugment
for name in $(choices data.erase_mode); do
    both "erase-$name" train 1 data.random_erase=0.7 "data.erase_mode=$name"
done
both views train 1 data.augment=imagenet data.train_interpolation=random data.tta=flip \
    data.interpolation=bicubic data.auto_augment=trivialaugment \
    data.auto_augment_interpolation=nearest train.seed=5 optimizer.momentum=0
both progressive train 2 "${sizes[@]}" train.batch_per_rank=2
both synthetic train 1 "${synthetic[@]}" log.format=json
for name in shards tars records; do both "$name" train 1 "data.train=../../images/$name"; done
both cifar train 1 data.{train,val}=../../images/cifar train.epochs=1
both idx train 2 data.{train,val}=../../images/idx "${grey[@]}"
both stopped stop 1 train.epochs=6 optimizer.name=adam "${mixing[@]}"
both stopped-ranks stop 2 train.epochs=12 optimizer.momentum=0.8
across across-one 1 schedule.name=constant optimizer.name=adamw "${mixing[@]}" "${sizes[@]}"
across across-two 2 schedule.name=constant data.auto_augment=augmix train.accumulate=2
across across-b0 2 schedule.name=constant "${b0[@]}"
both fine-tuning train 1 "${b0[@]}" model.classes=12 data.val= \
    model.init=../../begun/across-b0/run/checkpoints/latest
for name in help networks keys memory uses; do
    "list_$name" > "$work/$name.list"
    both "$name" answer "$name"
done
for script in "$tree"/tests/e2e/bad_*.sh; do
    both "$(basename "$script" .sh)" answer_script "$script"
done

((failed > 0)) || rm -r "$work"
tally_end
