#!/usr/bin/env bash
# resume.sh - a run that was stopped and started again ends with the same bits as one that was not,
# and says what it continued from.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config

# A shorter run is the beginning of a longer one only where the learning rate does not look at the
# end; signals.sh and kill.sh stop runs with the cosine. One epoch is 15 steps on one rank; on two,
# an epoch ends within step 8.
adam=(optimizer.name=adam optimizer.lr=0.001 schedule.name=constant train.epochs=9
    checkpoint.every_steps=5)
ranks=(1)
have_mpi && ranks=(1 2)
for n in "${ranks[@]}"; do
    train "whole$n" "$n" "${adam[@]}" train.max_steps=10
    train "parts$n" "$n" "${adam[@]}" train.max_steps=3
    train "parts$n" "$n" "${adam[@]}" train.max_steps=5
    expect_text "second part on $n" \
        1 "resumed from $SCRATCH/parts$n/checkpoints/step-00000003.safetensors at step 3"
    far "the parts go on on $n" "whole$n" "parts$n" 1e-4
    train "parts$n" "$n" "${adam[@]}" train.max_steps=10
    same "10 steps and 3 + 2 + 5 on $n" "whole$n" "parts$n"
    [[ $(losses "whole$n") == "$(losses "parts$n")" ]] ||
        broken "10 steps and 3 + 2 + 5 on $n: the losses differ"
    [[ $(losses "parts$n" | wc -l) == 10 ]] ||
        broken "3 + 2 + 5 on $n: steps are missing in metrics.jsonl"
    [[ $(events "parts$n" resume) == 2 ]] ||
        broken "3 + 2 + 5 on $n: $(events "parts$n" resume) resume events"
    expect_field "3 + 2 + 5 on $n" "parts$n" resume step 5
    expect_field "3 + 2 + 5 on $n" "parts$n" "done" code 0
done

# Momentum, accumulation and the learning rate's milestones come back too.
sgd=(train.batch_per_rank=4 train.accumulate=2 schedule.name=step "schedule.milestones=0.3, 0.6"
    train.epochs=9)
train sgd 1 "${sgd[@]}" train.max_steps=10
train sgd_parts 1 "${sgd[@]}" train.max_steps=5
train sgd_parts 1 "${sgd[@]}" train.max_steps=10
same "sgd with accumulation, 10 and 5 + 5" sgd sgd_parts

# A decay over steps of its own, stairs, and a straight line whose end is told by decay_steps: they
# do not look at the run's end, so that parts are the same run. A first rate of 0 moves no weight.
courses=("poly schedule.power=2 schedule.decay_steps=20" "exponential schedule.decay_epochs=0.2"
    "triangular schedule.decay_steps=8 schedule.min_lr=0.001")
for course in "${courses[@]}"; do
    read -ra keys <<< "schedule.name=$course"
    keys+=(schedule.warmup_steps=4 schedule.warmup_lr=0 schedule.gamma=0.5 train.epochs=9)
    name=${course%% *}
    train "$name" 1 "${keys[@]}" train.max_steps=10
    train "${name}_parts" 1 "${keys[@]}" train.max_steps=2
    train "${name}_parts" 1 "${keys[@]}" train.max_steps=7
    train "${name}_parts" 1 "${keys[@]}" train.max_steps=10
    same "$name, 10 steps and 2 + 5 + 3" "$name" "${name}_parts"
    [[ $(losses "$name") == "$(losses "${name}_parts")" ]] || broken "$name: the losses differ"
    grep -q '"step":1,.*"lr":0,' "$SCRATCH/$name/metrics.jsonl" ||
        broken "$name: the first rate is not 0"
    [[ $(grep -o '"lr":[^,]*' "$SCRATCH/$name/metrics.jsonl" | sort -u | wc -l) -gt 4 ]] ||
        broken "$name: the rate does not change"
done

# A file named by hand, in another run folder.
train named 1 "${adam[@]}" train.max_steps=10 \
    "checkpoint.resume=$SCRATCH/whole1/checkpoints/step-00000005.safetensors"
same "continued from a named file" whole1 named
expect_field "continued from a named file" named resume step 5

# A finished run has nothing to do and keeps what it has.
train whole1 1 "${adam[@]}" train.max_steps=10
expect_text "finished" some "nothing to do"
same "finished" whole1 named

# Keys that do not change results may change; those that do are named.
train parts1 1 "${adam[@]}" train.max_steps=10 data.threads=2
expect_text "another number of threads" 0 "convoy train: warning:"
train parts1 1 "${adam[@]}" train.max_steps=12 optimizer.weight_decay=0.5
expect_text "another weight decay" 1 "convoy train: warning: settings differ from the checkpoint's"
expect_text "another weight decay" 1 "optimizer.weight_decay"

# none starts afresh, and the steps of the run before are not taken for newer ones.
train parts1 1 "${adam[@]}" train.max_steps=4 checkpoint.resume=none
[[ $(newest parts1) == */step-00000004.safetensors ]] ||
    broken "resume=none: the newest checkpoint is $(newest parts1)"
[[ -e $SCRATCH/parts1/checkpoints/step-00000012.safetensors.stale ]] ||
    broken "resume=none: the old checkpoint is gone"
train parts1 1 "${adam[@]}" train.max_steps=5
expect_field "after resume=none" parts1 resume step 4
train parts1 1 "${adam[@]}" train.max_steps=10
same "after resume=none" whole1 parts1

# The same global batch on another number of ranks goes on where the run was.
if have_mpi; then
    moved=(model.bn=frozen schedule.name=constant train.batch_mode=global train.global_batch=8)
    train moved 1 "${moved[@]}" train.max_steps=2
    train moved 2 "${moved[@]}" train.max_steps=4
    train unmoved 1 "${moved[@]}" train.max_steps=4
    expect_field "from one rank to two" moved resume step 2
    near "from one rank to two" unmoved moved 1e-5
fi
exit "$failed"
