#!/usr/bin/env bash
# commands.sh - every command answers --help, says what it was asked for on standard output and
# nothing else there, and needs no run folder.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 2 1
make_config

# answers TEXT ARGS... - ends with 0, writes TEXT to standard output and nothing to standard error.
answers()
{
    local text=$1
    shift
    timeout 60 "$CONVOY" "$@" > "$out" 2> "$SCRATCH/err" || broken_run "convoy $*: exit code $?"
    grep -qF -- "$text" "$out" || broken_run "convoy $*: does not say '$text'"
    [[ ! -s $SCRATCH/err ]] ||
        broken "convoy $*: writes to standard error: $(head -1 "$SCRATCH/err")"
}

# Help, for 80 columns and 24 lines, and the tables that manual pages and completion are made of
# (install.sh compares those): the same options in the same order, none of which usage lacks.
"$CONVOY" --tables > "$SCRATCH/tables" || broken "convoy --tables: exit code $?"
while IFS=$'\t' read -r kind command about; do
    [[ $kind == command ]] || continue
    read -ra words <<< "${command#convoy}"
    answers "usage: $command" "${words[@]}" --help
    awk 'length($0) > 80 { wide = 1; print } END { exit wide }' "$out" > "$SCRATCH/wide" ||
        broken "$command --help: wider than 80 columns: $(head -n 1 "$SCRATCH/wide")"
    sed '1,/^$/d' "$out" | sed -nE 's/^  (-[^ ]*).*/\1/p' > "$SCRATCH/shown"
    awk -F '\t' -v name="$command" '$1 == "command" { wanted = $2 == name }
        wanted && $1 == "option" { sub(/[ ,].*/, "", $2); print $2 }' "$SCRATCH/tables" |
        diff - "$SCRATCH/shown" > "$SCRATCH/differ" ||
        broken "$command --help: other options than its table: $(cat "$SCRATCH/differ")"
    while read -r option; do
        [[ $option == --set ]] || sed '/^$/q' "$out" | grep -qF -- "$option" ||
            broken "$command --help: $option is not in the usage"
    done < "$SCRATCH/shown"
    [[ $about && ${#about} -le 60 ]] || broken "$command: summary '$about'"
done < "$SCRATCH/tables"
(($(grep -c '^command' "$SCRATCH/tables") > 20)) || broken "convoy --tables: few commands"
answers "find a usable learning rate" --help
(($(wc -l < "$out") <= 24)) || broken_run "convoy --help: more than 24 lines"
cp "$out" "$SCRATCH/top"
expect "convoy alone" 64 "$CONVOY"
cmp "$out" "$SCRATCH/top" || broken "convoy alone does not print the short help"
for command in train eval "bench step"; do
    # shellcheck disable=SC2086
    answers "usage: convoy $command" $command x.yaml --set a=b --help
done
answers "libjpeg-turbo" --version
answers "data.decoder fast: on" --version
answers "backend cpu: oneDNN" --version
answers "backend cuda: " --version
# The commit, where the sources came with git; "dirty" as tests may run before a commit.
commit=$([[ ! -e .git ]] || git describe --always --exclude='*' 2> /dev/null)
pattern='convoy [0-9.]+'${commit:+'\+[0-9a-f]+(\.dirty)?'}
"$CONVOY" --version | grep -xE "$pattern" > "$out" ||
    broken "--version does not begin with release and commit: $("$CONVOY" --version | head -1)"
# It is compiled again when the commit changes, and only then.
built="make -s B=$SCRATCH/b $SCRATCH/b/obj/base/version.o"
object=$SCRATCH/b/obj/base/version.o
release=$("$CONVOY" --version | sed -nE '1s/^convoy ([0-9.]+[0-9]).*/\1/p')
for commit in 1234567 1234567 89abcde ""; do
    before=$([[ ! -e $object ]] || stat -c %y "$object")
    $built "COMMIT=$commit" > "$out" 2>&1 || broken_run "make version.o"
    grep -qaF "$release${commit:++}$commit" "$object" ||
        broken "a build of commit \"$commit\" does not tell it"
    [[ $commit ]] || ! grep -qaF "$release+" "$object" || broken "no commit is told as an empty one"
    [[ $commit == "${last-none}" ]] && same=1 || same=0
    [[ $before == "$(stat -c %y "$object")" ]] && kept=1 || kept=0
    ((same == kept)) || broken "version.o after \"${last-}\" for \"$commit\": kept $kept"
    last=$commit
done
# It must start where there is no CUDA: those libraries are opened when they are used.
readelf -d "$CONVOY" > "$out" || broken "readelf cannot read $CONVOY"
! grep -E 'NEEDED.*\[lib(cuda|cudnn|cublas|nccl|nvrtc)' "$out" ||
    broken "$CONVOY needs a CUDA library to start"

# model: totals that torchvision has, as plain digits
while read -r model parameters; do
    answers "$parameters" inspect model "$model"
    grep -qwF "$parameters" "$out" ||
        broken_run "inspect model $model: $parameters is not a word of its own"
done << END
resnet18 11689512
resnet34 21797672
resnet50 25557032
resnet101 44549160
resnet152 60192808
END
answers "64 x 64 pixels, 3 channels, 6 classes" inspect model resnet20 --classes 6 --image-size 64
answers "resnet110" inspect model --help
answers "digraph" inspect model resnet20 --dot
answers "encoder.pos_embedding  " inspect model vit_b_16 --parameters
v2="weights IMAGENET1K_V2: 80.858 % top-1, 224 pixels cut from 232, bilinear"
answers "$v2; resnet50-11ad3fa6.pth" inspect model resnet50
answers "bicubic; model.safetensors of timm/mobilenetv2_100.ra_in1k" inspect model mobilenet_v2
answers "weights lvd142m: without a last layer, 518" inspect model vit_small_patch14_dinov2
answers "resnet50                 81.240" inspect model --help

answers "blurpool timm" inspect model resnet50 --set model.blurpool=timm
answers "blur, reflected, 3x3/2x2" inspect model resnet50 model.blurpool=timm
sizes=(--images 50 data.image_size=40 data.train_size=24)
answers "24 to train, 40 to evaluate" inspect config "${sizes[@]}"
answers "16 to step 25, 24 to train, 40 to evaluate" inspect config "${sizes[@]}" \
    data.progressive_sizes=16 data.progressive_until=2 train.batch_per_rank=4
expect_error "inspect model of data" 64 "data.train_size=8: only model.* keys" 1 \
    inspect model resnet50 data.train_size=8
expect_error "a blur of no ResNet" 64 "model.blurpool is only supported by ResNets" 1 \
    inspect model efficientnet_b0 model.blurpool=ffcv
expect_error "depth of no residual network" 64 "model.dropout are not supported" 1 \
    inspect model mlp model.stochastic_depth=0.1

answers "checkpoint.resume" inspect config
[[ $("$CONVOY" inspect config --markdown) == "$(cat docs/config.md)" ]] ||
    broken "docs/config.md is not what convoy says: make docs"
recipe=(optimizer.lr=10.5 optimizer.lr_scaling=none schedule.name=poly schedule.power=2
    schedule.min_lr=1e-4 schedule.warmup_lr=0 schedule.warmup_steps=786 schedule.decay_steps=13756
    train.batch_per_rank=408 train.max_steps=14541 train.epochs=38)
expect "inspect config of a recipe" 0 run 1 inspect config --ranks 8 --images 1281167 "${recipe[@]}"
[[ $(sed -n '/^steps/p; /^first/,$p' "$out" | tr -s ' ') == "steps 14541, 392.514 per epoch
first 1 0.000 0
second 2 0.003 0.013358778626
after warm-up 787 2.002 10.5
at 1/4 3636 9.261 6.60112617536
at 1/2 7271 18.522 2.93442740043
at 3/4 10906 27.782 0.734085415966
last 14541 37.043 0.000100221952898" ]] || broken_run "inspect config: other steps or rates"
expect_text "inspect config of a recipe" 1 " GiB per rank; convoy inspect memory lists its parts"
seq 10 > "$SCRATCH/weights"
for group in 0 4; do
    expect "inspect config of groups" 0 run 1 inspect config --ranks 8 --images 50000 \
        model.name=resnet20 model.bn=sync "model.bn_group=$group" \
        "train.class_weights=$SCRATCH/weights"
done
expect_error "inspect config of groups" 64 "8 ranks cannot be divided into groups of 3" 1 \
    inspect config --ranks 8 --images 50000 model.bn=sync model.bn_group=3
never() # TEXT KEY... - a run of 100 images in which what a key asks for would never come
{
    local text=$1
    shift
    expect_error "inspect config: $text" 64 "$text" 1 inspect config model.name=resnet20 \
        data.image_size=32 "$@"
}
never 'optimizer.groups: "nothing.*" matches no trained parameter' --images 100 \
    'optimizer.groups=nothing.*: lr=2'
never "optimizer.head_lr applies to fc" --images 100 optimizer.head_lr=2 'model.freeze=fc.*'
never "optimizer.layer_decay: mlp has no blocks" --images 100 optimizer.layer_decay=.5 \
    model.name=mlp
never "ema.every: 1000 steps, but the run has" --images 100 ema.decay=.9 ema.every=1000
never "ema.decay: the averaged weights would never be evaluated" data.format=synthetic ema.decay=.9
never "train.patience requires evaluations" data.format=synthetic train.patience=2
never "optimizer.sam_rho: " data.format=synthetic optimizer.sam_rho=.05 train.accumulate=2
expect_text "what stands in for images" 0 "--images N would replace"
stairs=(--images 1282048 optimizer.lr=0.016 schedule.name=exponential schedule.warmup_lr=0
    schedule.gamma=0.97 train.batch_per_rank=4096 train.epochs=350)
expect "inspect config of epochs" 0 run 1 inspect config --epochs 0,1,5,10,349 "${stairs[@]}"
[[ $(awk '/^epoch/ { print $2, $3, $NF }' "$out") == "0 1 0
1 314 0.0512
5 1566 0.2408704
10 3131 0.22663495936
349 109238 0.00309130199323" ]] || broken_run "inspect config: other rates of chosen epochs"
expect_error "inspect config behind the end" 64 "--epochs: the run ends before epoch 350" 1 \
    inspect config --epochs 0,350 "${stairs[@]}"
expect_error "inspect config of no epoch" 64 '--epochs: "x" is not an epoch' 1 \
    inspect config --epochs 1,x "${stairs[@]}"
expect_error "inspect config of two things" 64 "--markdown" 1 inspect config --markdown --images 5
expect "inspect config of a long warm-up" 0 run 1 inspect config --images 50000 \
    train.max_steps=500 schedule.name=poly schedule.warmup_steps=24000 schedule.warmup_lr=0
expect_text "inspect config of a long warm-up" 1 \
    "schedule.warmup_steps: the warm-up (24000 steps) is"
expect "inspect config of a file" 0 run 1 inspect config "$SCRATCH/small.yaml"
expect_text "inspect config of a file" 1 "images           20"
expect "a run to look at" 0 run 1 train "$SCRATCH/small.yaml" "run.dir=$SCRATCH/looked_at" \
    train.max_steps=1
expect "inspect config of a run" 0 run 1 inspect config "$SCRATCH/looked_at" schedule.warmup_steps=3
expect_error "inspect config of two warm-ups" 64 \
    "cannot be combined with schedule.warmup_epochs" 1 inspect config "$SCRATCH/looked_at" \
    schedule.warmup_steps=3 schedule.warmup_epochs=2
expect_error "inspect config without data" 64 "--images N would replace" 1 inspect config \
    train.epochs=2
expect_error "inspect config of too few images" 64 "train.batch_per_rank" 1 inspect config \
    --images 20 --ranks 2 train.batch_per_rank=11
# A folder of both sets, or the one that is asked for.
answers "$SCRATCH/data/val:" inspect dataset "$SCRATCH/data"
[[ $(grep -E '^images' "$out" | paste -sd ' ') == "images 20 images 10" ]] ||
    broken_run "inspect dataset: not both sets"
answers "images 10" inspect dataset "$SCRATCH/data" --role val
! grep -q 'images 20' "$out" || broken_run "inspect dataset --role val: the other set, too"
expect_error "inspect dataset of a file" 65 "small.yaml: neither a folder nor a file" 1 \
    inspect dataset "$SCRATCH/small.yaml"
answers "20" inspect dataset "$SCRATCH/data/train"
for name in star triangle checkers; do
    grep -q "$name" "$out" || broken_run "inspect dataset: no class $name"
done
answers "bytes" inspect memory "$SCRATCH/small.yaml"
cp "$SCRATCH/data/train/star/0000.jpg" "$SCRATCH/data/train/star/bad.jpg"
truncate -s 300 "$SCRATCH/data/train/star/bad.jpg"
expect "inspect dataset with a bad image" 65 run 1 inspect dataset "$SCRATCH/data/train"
expect_text "inspect dataset with a bad image" some "$SCRATCH/data/train/star/bad.jpg"
expect "inspect dataset with a bad image in one set" 65 run 1 inspect dataset "$SCRATCH/data"
expect_one_error "inspect dataset with a bad image in one set" \
    "$SCRATCH/data: not all images can be read"
expect_text "inspect dataset with a bad image in one set" 1 \
    "warning: $SCRATCH/data/train: 1 of 21 images are unreadable"
expect_text "inspect dataset with a bad image in one set" 1 "images 10"
rm "$SCRATCH/data/train/star/bad.jpg"

train run 1 train.max_steps=1
answers "step 1" inspect checkpoint "$(latest run)"
answers "conv1.weight" inspect checkpoint "$(latest run)"
answers "optimizer.momentum.conv1.weight" inspect checkpoint "$(latest run)"
settings run "data.val=$SCRATCH/data/val"
answers "10 images" eval "${sets[@]}" --checkpoint "$SCRATCH/run/checkpoints/latest"

answers "images_per_s_per_thread" bench decode "$SCRATCH/small.yaml" --steps 2
answers "images 3" bench decode "$SCRATCH/small.yaml" --steps 2 --images 3 \
    train.batch_per_rank=1000
answers "batch_ms" bench step "$SCRATCH/small.yaml" --steps 2 --eval
answers "images_per_s" bench loader "$SCRATCH/small.yaml" --steps 2
for line in cold_read_ms_p99 cached_images_per_s cached_megabytes_per_s cached_starved_percent \
    synthetic_images_per_s
do
    # A file system in memory has no other place for its pages.
    [[ $line == cold* ]] && grep -q "cold: not measured" "$out" && continue
    grep -q "^$line [0-9.]*$" "$out" || broken_run "bench loader: no line $line"
done
# A thread makes no more images than it has time for, however few are asked for: of 8 that were made
# meanwhile one at most was begun before, so three of the others took the median or longer.
for ((i = 0; i < 10; i++)); do
    answers "images_per_s" bench loader "$SCRATCH/small.yaml" --steps 1 --input now \
        --set data.threads=1 --set train.batch_per_rank=8
    awk '$1 == "images_per_s" { rate = $2 } $1 == "now_decode_ms_p50" { ms = $2 }
        END { exit rate * ms > 1000 * 9 / 3 }' "$out" || broken_run "bench loader: too fast"
done
for what in loader step; do
    expect_error "bench $what of less than a batch" 64 \
        "train.batch_per_rank: a global batch of 9999 images is larger than the dataset" \
        1 bench "$what" "$SCRATCH/small.yaml" --set train.batch_per_rank=9999
done
expect "a run folder that ends in .." 0 run 1 bench loader "$SCRATCH/small.yaml" --steps 1 --crc \
    "run.dir=$SCRATCH/data/train/.." --set data.index=auto
[[ -d $SCRATCH/index && ! -e $SCRATCH/data/train/index ]] || broken "the index became a class"
answers "step 1 crc " bench loader "$SCRATCH/small.yaml" --steps 2 --crc
expect_error "bench loader --input" 64 \
    "--input: unknown value warm; it is one of cold, cached, synthetic, now" 1 bench loader \
    "$SCRATCH/small.yaml" --input warm
if (($(getconf _NPROCESSORS_ONLN) > 1)); then
    cpu=$(awk '$1 == "Cpus_allowed_list:" { split($2, a, /[,-]/); print a[1] }' /proc/self/status)
    expect "more threads than CPUs" 0 taskset -c "$cpu" "$CONVOY" bench loader \
        "$SCRATCH/small.yaml" --steps 2 --input now --set data.threads=2
    expect_text "more threads than CPUs" 1 "data.threads: 2 threads on 1 allowed CPUs"
fi
answers "step_ms" bench step "$SCRATCH/small.yaml" --steps 2 --nodes
grep -qE "^peak, measured +[1-9][0-9.]* +[1-9][0-9.]*$" "$out" || broken_run "bench step: no peaks"
grep -q "^mean_images_per_s [0-9.]*$" "$out" || broken_run "bench step: no line mean_images_per_s"
answers "busbw" bench allreduce "$SCRATCH/small.yaml" --set comm.bucket_mb=1 --steps 2
if have_mpi; then
    for what in decode loader step allreduce; do
        expect "bench $what on 2" 0 run 2 bench "$what" "$SCRATCH/small.yaml" \
            --set comm.bucket_mb=1 --steps 2 --warmup 1
    done
    expect_error "inspect config on 2" 64 '"x" is not an epoch' 2 inspect config --epochs x \
        "${recipe[@]}" --images 1281167
    expect "inspect memory on 2" 0 run 2 inspect memory "$SCRATCH/small.yaml"
    expect_text "inspect memory on 2" 1 "total "
    expect "--help on 2" 0 run 2 --help
    expect_text "--help on 2" 1 "usage: convoy"
fi
exit "$failed"
