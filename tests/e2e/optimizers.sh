#!/usr/bin/env bash
# optimizers.sh - LARS, LAMB, RMSProp-TF, Lion and Muon in whole runs: stopped and continued to the
# bit, however gradients are cut into buckets, and alike on any number of ranks and passes.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 12 7
make_config

# Trust ratios are norms of sums over ranks and passes: with frozen batch norm they are the same.
# Two steps for that: after more of them rounding shows.
for name in lars lars_mlperf lamb rmsprop_tf lion muon; do
    keys=("optimizer.name=$name" schedule.name=step "schedule.milestones=0.1, 0.4" train.epochs=9
        model.bn=frozen optimizer.weight_decay=0.01 train.eval_every=0)
    case $name in
        lars*) keys+=(optimizer.lr=0.05 optimizer.trust_coefficient=0.02) ;;
        lamb) keys+=(optimizer.lr=0.005 optimizer.clip_norm=1) ;;
        # a gradient within rounding of 0 may have either sign: steps are short, then, to be near,
        # and sums are direct: where x and dy never meet they give 0, and Winograd roundings
        lion) keys+=(optimizer.lr=0.0001 device.winograd=false) ;;
        # its iteration makes as much of rounding as of what is small
        muon) keys+=(optimizer.lr=0.0005 optimizer.nesterov=true) ;;
        *) keys+=(optimizer.lr=0.005) ;;
    esac
    train "$name" 1 "${keys[@]}" train.max_steps=6
    train "${name}_parts" 1 "${keys[@]}" train.max_steps=2
    far "$name moves the weights" "$name" "${name}_parts" 2e-4
    micro=("${keys[@]}" train.max_steps=2 train.batch_per_rank=4)
    train "${name}_micro" 1 "${micro[@]}" train.accumulate=2
    near "$name, 1 x 8 and 1 x 4 accumulated twice" "${name}_parts" "${name}_micro" 1e-5
    if have_mpi > /dev/null; then
        train "${name}_two" 2 "${micro[@]}"
        train "${name}_cut" 2 "${micro[@]}" comm.bucket_mb=0.1
        near "$name, 1 x 8 and 2 x 4" "${name}_parts" "${name}_two" 1e-5
        same "$name, one bucket and many" "${name}_two" "${name}_cut"
    fi
    train "${name}_parts" 1 "${keys[@]}" train.max_steps=4
    train "${name}_parts" 1 "${keys[@]}" train.max_steps=6
    same "$name, 6 steps and 2 + 2 + 2" "$name" "${name}_parts"
done
have_mpi
train_fails clipped 64 "optimizer.trust_clip requires optimizer.name: lars or lamb" 1 \
    optimizer.trust_clip=true
exit "$failed"
