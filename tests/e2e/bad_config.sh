#!/usr/bin/env bash
# bad_config.sh - a wrong command line, config file, key or value: one line that names it, exit code
# 64 (65 for what data says), nothing hangs.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 2 1
make_config
ranks=(1)
have_mpi && ranks=(1 2)

# refused TEXT KEY=VALUE... - as a user error, by one rank and by two.
refused()
{
    local text=$1 n
    shift
    for n in "${ranks[@]}"; do train_fails refused 64 "$text" "$n" "$@"; done
}

# refused_file TEXT - the config file $SCRATCH/bad.yaml.
refused_file()
{
    local n
    for n in "${ranks[@]}"; do
        expect_error "config file" 64 "$1" "$n" train "$SCRATCH/bad.yaml"
    done
}

# ---- the command line ----
expect "no command" 64 run 1
expect_text "no command" 1 "usage: convoy COMMAND"
expect_text "no command" 0 ": error:"
for n in "${ranks[@]}"; do
    expect_error "unknown command" 64 "did you mean train?" "$n" trian
    expect_error "unknown option" 64 "did you mean --set?" "$n" train x.yaml --sett a=b
    expect_error "no config" 64 "missing argument CONFIG|RUN" "$n" train
    expect_error "no checkpoint" 64 "no run in runs/small; name a checkpoint with --checkpoint" \
        "$n" eval "$SCRATCH/small.yaml" "data.val=$SCRATCH/data/val"
    expect_error "no run" 64 "not a run folder" "$n" train "$SCRATCH"
    expect_error "no such config" 64 "$SCRATCH/nowhere.yaml" "$n" train "$SCRATCH/nowhere.yaml"
done
expect_error "no such network" 64 "did you mean resnet50, " 1 inspect model resnet5O
expect_error "a name with a tag" 64 "it is called resnet18 here, and model.init=FILE sets" 1 \
    inspect model resnet18.a1_in1k
expect_error "a name of timm" 64 "model.name: unknown network \"mobilenetv2_100\"; it is called \
mobilenet_v2 here" 1 inspect config model.name=mobilenetv2_100
expect_error "no such benchmark" 64 "unknown command steps (did you mean step?)" 1 bench steps
expect_error "no such subject" 64 "did you mean model?" 1 inspect modell

# ---- keys ----
no_grace
refused "did you mean train.batch_per_rank" train.batch_per_rnk=8
refused "no_equals_sign" no_equals_sign
expect_error "a network in the place of a config" 64 "configs/resnet50-imagenet.yaml" 1 \
    train resnet50
expect_error "a network in the place of a config" 64 "model.name=resnet50" 1 train resnet50
for word in models list --list-models; do
    expect_error "$word" 64 "use convoy inspect model --help" 1 "$word"
done
expect_error "version" 64 "use convoy --version" 1 version
expect_error "validate" 64 "use convoy eval RUN" 1 validate
mkdir -p "$SCRATCH/classes/cat" "$SCRATCH/classes/dog"
for n in "${ranks[@]}"; do
    train_fails classes 65 "data.val_split=0.1" "$n" data.train= "data.dir=$SCRATCH/classes"
done
expect_error "half a file name" 64 "did you mean configs/resnet50-imagenet.yaml?" 1 \
    train configs/resnet50.yaml
for n in "${ranks[@]}"; do
    expect_error "a misspelt word" 64 "did you mean optimizer.lr?" "$n" train \
        "$SCRATCH/small.yaml" optimzer.lr=1
    expect_error "a bare name" 64 "use optimizer.lr=RATE" "$n" train "$SCRATCH/small.yaml" lr=1
done
cp "$SCRATCH/small.yaml" "$SCRATCH/bad.yaml"
echo "  treads: 2" >> "$SCRATCH/bad.yaml"
line=$(wc -l < "$SCRATCH/bad.yaml")
refused_file "$SCRATCH/bad.yaml:$line: "
expect_text "unknown key" 1 "device.treads"
expect_text "unknown key" 1 "device.threads"
printf 'optimizer:\n  lr: 0.1\n  lr: 0.2\n' > "$SCRATCH/bad.yaml"
refused_file "$SCRATCH/bad.yaml:3: "
printf 'optimizer:\n  betas: [0.9, 0.99\n' > "$SCRATCH/bad.yaml"
refused_file "$SCRATCH/bad.yaml:"
printf 'train: 3\n' > "$SCRATCH/bad.yaml"
refused_file "$SCRATCH/bad.yaml:1: "
head -c 4096 /dev/zero > "$SCRATCH/bad.yaml"
refused_file "$SCRATCH/bad.yaml"

# ---- values: out of range, of another type, in contradiction to each other ----
for setting in optimizer.lr=-1 optimizer.momentum=1 train.epochs=0 train.epochs=abc \
    train.epochs=nan data.image_size=4 data.image_size=32.5 train.batch_per_rank=0 \
    train.batch_per_rank=99999999999999999999 optimizer.name=sgdd data.std=0 \
    "optimizer.betas=[0.9]" optimizer.nesterov=maybe checkpoint.keep=0 comm.timeout_s=-1 \
    model.in_channels=2 model.in_channels=99; do
    expect_error "$setting" 64 "${setting%%=*}" 1 train "$SCRATCH/small.yaml" \
        --set "run.dir=$SCRATCH/refused" --set "$setting"
done
printf 'train:\n  epochs: 5\n  batch_per_rank: many\n' > "$SCRATCH/bad.yaml"
refused_file "$SCRATCH/bad.yaml:3: train.batch_per_rank"
refused "did you mean resnet20, " model.name=resnet2O
refused "model.classes" model.classes=9
refused "data.mean" "data.mean=[0.5, 0.5]"
refused "train.batch_per_rank" train.batch_per_rank=21
refused "train.global_batch" train.batch_mode=global train.global_batch=22
refused "data.train is not set" data.train=
have_mpi && train_fails odd 64 "train.global_batch" 2 train.batch_mode=global train.global_batch=7

# Keys that some ranks were given and others not.
if have_mpi; then
    cat > "$SCRATCH/one_differs" << 'END'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}
((rank == 1)) && exec "$REAL" "$@" --set optimizer.lr=0.3
exec "$REAL" "$@"
END
    chmod +x "$SCRATCH/one_differs"
    REAL=$CONVOY CONVOY=$SCRATCH/one_differs
    export REAL
    train_fails differs 64 "optimizer.lr is 0.3" 2
fi
exit "$failed"
