#!/usr/bin/env bash
# recipes.sh - every file of configs/recipes is read, says where it is from and that it was not run,
# and what its own first command would do is planned for as many ranks, with its memory.
source tests/e2e/lib/common.sh
count=0
for file in configs/recipes/*.yaml; do
    ((count++))
    ranks=$(sed -n "s,^# *mpirun -n \([0-9]*\) ./convoy train $file.*,\1,p" "$file" | head -n 1)
    [[ $ranks -gt 0 ]] || broken "$file: no command with its own name"
    sed '/^#/!q' "$file" | tr '\n#' '  ' | tr -s ' ' | grep -qi ' not run here[.,]' ||
        broken "$file: does not say that it was not run here"
    expect "$file" 0 run 1 inspect config "$file" --images 1281167 --ranks "$ranks"
    expect_text "$file" 1 "ranks            $ranks"
    grep -q '^memory  *[0-9.]* GiB per rank' "$out" || broken_run "$file: no memory"
    grep -q '^last ' "$out" || broken_run "$file: no learning rates"
done
((count >= 15)) || broken "$count recipes, expected 15"

# A row of MLPerf's table, by the commands in the file.
file=configs/recipes/resnet50-mlperf.yaml
read -r _ batch images epochs lr warm decay weight momentum _ < <(grep '^#= *49152 ' $file)
expect "a row of MLPerf's" 0 run 1 inspect config $file --images 1281167 \
    --ranks $((batch / images)) "train.global_batch=$batch" "train.batch_per_rank=$images" \
    "train.epochs=$epochs" "optimizer.lr=$lr" "schedule.warmup_steps=$warm" \
    "schedule.decay_steps=$decay" "optimizer.weight_decay=$weight" "optimizer.momentum=$momentum"
[[ $(awk '/^after warm-up/ { print $3, $NF }' "$out") == "649 19.405" ]] ||
    broken_run "a row of MLPerf's: another warm-up"
exit "$failed"
