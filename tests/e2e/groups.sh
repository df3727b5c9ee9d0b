#!/usr/bin/env bash
# groups.sh - rates by group and frozen parameters in whole runs: resume, ranks, micro-batches, and
# what is refused.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 8 2
make_config
ranks=(1)
have_mpi && ranks=(1 2)

# 80 images: 10 steps an epoch. Frozen running statistics, so that images do not see each other.
common=(model.bn=frozen schedule.name=constant)
groups=("${common[@]}" model.freeze=layer1
    "optimizer.groups=layer2.0.*: lr=0.5; *.bias: lr=4 decay=0"
    optimizer.head_lr=3 optimizer.layer_decay=0.8 optimizer.decay_skip=torchvision
    optimizer.weight_decay=0.01)
train whole 1 "${groups[@]}" train.max_steps=9
expect_text "start" 1 "optimizer.head_lr is 3, but no weights are loaded (model.init)"
expect_text "start" 1 "model.freeze: 21 of 59 parameters are frozen; batch norm uses frozen"
for steps in 4 9; do train parts 1 "${groups[@]}" "train.max_steps=$steps"; done
same "in one piece and in two" whole parts
expect_text "the same settings" 0 "settings differ from the checkpoint's"
train micro 1 "${groups[@]}" train.max_steps=9 train.batch_per_rank=4 train.accumulate=2
near "one micro-batch and two" whole micro 1e-4
((${#ranks[@]} == 1)) || train two 2 "${groups[@]}" train.max_steps=9 train.batch_per_rank=4
((${#ranks[@]} == 1)) || near "one rank and two" whole two 1e-4
train plain 1 "${common[@]}" model.freeze=layer1 train.max_steps=9
far "without the factors" whole plain 1e-3

# To the forward pass all parameters are the same in the first step; what was frozen stays so.
train thawed 1 "${common[@]}" train.max_steps=9
train frozen 1 "${common[@]}" "model.freeze=layer1.*, conv1, bn1" train.max_steps=9
same "a stage, or its parts" plain frozen
[[ $(losses thawed | head -1) == "$(losses plain | head -1)" ]] ||
    broken "frozen or not: the first losses differ"
far "frozen or not" thawed plain 1e-3

# Another list thaws, and the run says so.
train thaw 1 "${common[@]}" model.freeze=layer1 train.max_steps=4
train thaw 1 "${common[@]}" train.max_steps=9
expect_text "thawed" 1 'model.freeze was "layer1" and is ""'
far "thawed and not" thaw plain 1e-3

# Nothing but the last layer: the loss falls all the same.
train head 1 model.freeze=layer3 optimizer.name=adam optimizer.lr=0.01 train.epochs=4
expect_text "head" 1 "batch norm uses statistics of the batch"
losses head | awk 'NR == 1 { first = $2 } END { exit !($2 < 0.9 * first) }' ||
    broken "the last layer alone does not learn"

# refused TEXT KEY=VALUE... - by one rank and by two.
refused()
{
    local text=$1 n
    shift
    for n in "${ranks[@]}"; do train_fails refused 64 "$text" "$n" "$@"; done
}
no_grace
refused 'model.freeze: "layer7" matches no parameter or stage' model.freeze=layer7
refused 'model.freeze: "fc" leaves nothing to train' model.freeze=fc
refused 'optimizer.groups: "head.*" matches no trained parameter' "optimizer.groups=head.*: lr=2"
refused 'command line: optimizer.groups has "rate=2" after "fc.*:"' "optimizer.groups=fc.*: rate=2"
refused "optimizer.head_lr applies to fc, which model.freeze freezes" optimizer.head_lr=2 \
    "model.freeze=fc.*"
expect_error "inspect config" 64 'model.freeze: "layer7" matches no' 1 \
    inspect config "$SCRATCH/small.yaml" model.freeze=layer7

exit "$failed"
