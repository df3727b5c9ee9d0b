#!/usr/bin/env bash
# world_change.sh - a run goes on with 4, then 2, then 3 ranks at one global batch, in the middle of
# epochs: the losses of all steps are those of a run that never changed. (Which samples each step
# sees: tests/unit/trainer/engine/plan/test_world_change.c.)
source tests/e2e/lib/common.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
make_data "$SCRATCH/data" 15 1
make_config

# With frozen batch norm a step depends on its samples alone, not on how ranks share them.
common=(model.bn=frozen schedule.name=constant train.epochs=2 train.batch_mode=global
    train.global_batch=12 train.batch_per_rank=4)
train moved 4 "${common[@]}" train.max_steps=5
train moved 2 "${common[@]}" train.max_steps=14
expect_field "on 2 ranks" moved resume step 5
train moved 3 "${common[@]}"
expect_field "on 3 ranks" moved resume step 14
train unmoved 1 "${common[@]}"
[[ $(losses moved | wc -l) == 25 ]] ||
    broken "4, 2, 3 ranks: $(losses moved | wc -l) steps recorded, expected 25"
join <(losses unmoved | sort) <(losses moved | sort) |
    awk '{ d = ($2 - $3) / $2 }
        d > 2e-4 || d < -2e-4 { print "step " $1 ": loss " $3 ", unmoved " $2 }' > "$out"
[[ -s $out ]] && broken_run "4, 2, 3 ranks: losses differ"
near "4, 2, 3 ranks" unmoved moved 1e-3

# The comparison sees another order of samples.
train other 1 "${common[@]}" train.seed=2
far "another order" unmoved other 1e-2

# With batch statistics the losses go on without a jump: those after a change are not further from
# those before than in a run without one.
live=(train.epochs=6 schedule.name=constant train.batch_mode=global train.global_batch=12
    train.batch_per_rank=6 optimizer.lr=0.005)
train live 4 "${live[@]}" train.max_steps=25
train live 2 "${live[@]}" train.max_steps=50
train live 3 "${live[@]}"
for step in 25 50; do
    losses live | awk -v at="$step" '
        $1 > at - 12 && $1 <= at { before += $2 / 12; if ($2 > most) most = $2 }
        $1 > at && $1 <= at + 12 { after += $2 / 12 }
        END {
            if (after < before * 1.25 && after < most) exit
            print "mean loss of 12 steps before step " at ": " before ", after: " after
        }' > "$out"
    [[ -s $out ]] && broken_run "live batch norm: a jump"
done

# With another global batch steps are counted anew, by images; records of checkpoints count them as
# those of steps do, and files by the updates that are in them.
smaller=(schedule.name=constant train.epochs=2 train.batch_per_rank=4 checkpoint.every_steps=2
    log.every=1)
train fewer 4 "${smaller[@]}" train.max_steps=3
train fewer 1 "${smaller[@]}" train.max_steps=17
sed -n '/"event":"resume"/,$p' "$SCRATCH/fewer/metrics.jsonl" > "$out"
grep -q '"event":"resume".*"step":12,' "$out" || broken_run "another batch: does not go on at 12"
awk -F'"step":' '{ split($2, v, ",") }
    /"event":"step"/ { step = v[1] }
    /"event":"checkpoint"/ { count++; last = v[1]; if (last > step) print step ": saved " last }
    END { if (count < 2 || last != step) print count " checkpoints, last at " last " of " step }' \
    "$out" > "$SCRATCH/wrong"
[[ ! -s $SCRATCH/wrong ]] || broken_run "another batch: $(cat "$SCRATCH/wrong")"
exit "$failed"
