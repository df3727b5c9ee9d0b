#!/usr/bin/env bash
# log_format.sh - what log.format prints in whole runs, and the ranks' own files.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 2 1
make_config
ranks=1
have_mpi && ranks=2
base=(train.batch_per_rank=4 "data.val=$SCRATCH/data/val" train.epochs=2 log.every=2)

# Six columns; FinLoss is above Loss by the L2 term, which weight decay scales.
train table "$ranks" "${base[@]}" log.format=table optimizer.weight_decay=0.01
cp "$out" "$SCRATCH/table.txt"
expect_text "table" 1 "  Step Epoch Speed   Loss  FinLoss   LR"
expect_text "table" 0 "ETA"
row='^ *[0-9]+ +[0-9]+\.[0-9] +[0-9]+\.[0-9] +[0-9]+\.[0-9]{3} +[0-9]+\.[0-9]{3} [0-9]\.[0-9]{5}$'
[[ $(grep -cE "$row" "$out") == $(events table step) ]] ||
    broken_run "table: not a row for each of $(events table step) records"
[[ $(grep -E "$row" "$out" | awk '{ print $1 }') == $(losses table | awk '{ print $1 }') ]] ||
    broken_run "table: other steps than in metrics.jsonl"
train table2 "$ranks" "${base[@]}" log.format=table optimizer.weight_decay=0.02
term() { grep -E "$row" "$1" | awk 'NR == 1 { print $5 - $4 }'; }
awk -v a="$(term "$SCRATCH/table.txt")" -v b="$(term "$out")" \
    'BEGIN { exit !(a > 0.1 && b - 2 * a < 0.003 && 2 * a - b < 0.003) }' ||
    broken "the L2 term is $(term "$SCRATCH/table.txt") with 0.01 and $(term "$out") with 0.02"

# A line of each rank for each epoch, and the accuracy of the last evaluation at the end.
train epoch "$ranks" "${base[@]}" log.format=epoch "log.file=own/%r.%w.log"
for ((r = 0; r < ranks; r++)); do
    for e in 0 1; do
        expect_text "epoch" 1 "[Epoch $e | CPU: Process rank $r | Batchsize: 4 | Steps: "
    done
    own=$SCRATCH/epoch/own/$r.$ranks.log
    grep -q " step $(field epoch step step) loss " "$own" || broken "no last step in $own"
done
expect_text "epoch" 0 "ETA"
accuracy=$(printf '%.4f' "$(field epoch eval top1)") \
    loss=$(printf '%.4f' "$(field epoch eval loss)")
expect_text "epoch" 1 "|     $accuracy |     $loss |"

# The records of metrics.jsonl and nothing else.
train json "$ranks" "${base[@]}" log.format=json
cmp -s "$out" "$SCRATCH/json/metrics.jsonl" || broken_run "json: other than metrics.jsonl"

train_fails wrong 64 "log.file" "$ranks" "log.file=%x.log"
((ranks == 1)) || train_fails wrong 64 "log.file" "$ranks" "log.file=all.log"
exit "$failed"
