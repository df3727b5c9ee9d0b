#!/usr/bin/env bash
# log_format.sh - what log.format prints in whole runs, and the ranks' own files.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 2 1
make_config
ranks=1
have_mpi && ranks=2
base=(train.batch_per_rank=4 "data.val=$SCRATCH/data/val" train.epochs=2 log.every=2)

# The first lines say what trains on what, for how long and where; the rest is asked for.
settings quiet "${base[@]}" train.max_steps=1
expect "quiet" 0 run 1 train "${sets[@]}"
what="resnet20 [(]0.27 M parameters[)]: [0-9]+ images of 10 classes, [0-9]+ for validation"
how="1 rank on .* [(]cpu, fp32[)], global batch 4, 1 step [(].* epochs?[)]"
first=$(sed -n '1,3p' "$out" | paste -sd '|')
[[ $first =~ ^$what\|$how\|"run folder: $SCRATCH/quiet"$ ]] ||
    broken_run "quiet: other first lines"
expect_text "quiet" 0 "products run by: conv2d"
expect_text "quiet" 0 "memory: peak"
grep -qE "device.fuse: in evaluation [1-9][0-9]* of [1-9][0-9]* batch norms are fused" \
    "$SCRATCH/quiet/log.txt" || broken "log.txt lacks what is fused in evaluation"
grep -q "products run by: conv2d" "$SCRATCH/quiet/log.txt" ||
    broken "log.txt lacks what the engine chose"
awk 'length > 80 && !/:/ { exit 1 }' "$out" || broken_run "quiet: a line of more than 80 columns"

# Six columns; FinLoss is above Loss by the L2 term, which weight decay scales.
train table "$ranks" "${base[@]}" log.format=table optimizer.weight_decay=0.01
cp "$out" "$SCRATCH/table.txt"
expect_text "table" 1 "  Step Epoch Speed   Loss  FinLoss   LR"
expect_text "table" 0 " left"
row='^ *[0-9]+ +[0-9]+\.[0-9] +[0-9]+\.[0-9] +[0-9]+\.[0-9]{3} +[0-9]+\.[0-9]{3} [0-9]\.[0-9]{5}$'
# Steps from 0; the records count the same steps from 1.
last=$(($(field table step step) - 1))
[[ $(grep -E "$row" "$out" | awk '{ print $1 }') == "$(seq 0 1; seq 2 2 "$last")" ]] ||
    broken_run "table: not a row for steps 0, 1 and every other"
[[ $(losses table | awk '{ print $1 }') == "1
$(seq 2 2 "$((last + 1))")"* ]] || broken_run "table: the records have other steps than before"
train table2 "$ranks" "${base[@]}" log.format=table optimizer.weight_decay=0.02
term() { grep -E "$row" "$1" | awk 'NR == 1 { print $5 - $4 }'; }
awk -v a="$(term "$SCRATCH/table.txt")" -v b="$(term "$out")" \
    'BEGIN { exit !(a > 0.1 && b - 2 * a < 0.003 && 2 * a - b < 0.003) }' ||
    broken "the L2 term is $(term "$SCRATCH/table.txt") with 0.01 and $(term "$out") with 0.02"

# AWS's TensorFlow example: 300 steps of 8192 of 1,281,167 images, here 8 of 1251.
train published 1 data.format=synthetic data.synthetic_images=1251 data.train= model.name=mlp \
    data.image_size=8 data.eval_resize=8 train.max_steps=300 train.epochs=2 log.every=50 \
    log.format=table optimizer.lr=3.2 schedule.name=poly schedule.power=2 schedule.min_lr=1e-5 \
    optimizer.momentum=0 optimizer.clip_norm=0.001
[[ $(grep -E "$row" "$out" | awk '{ print $1, $2, $6 }') == "0 0.0 3.20000
1 0.0 3.17870
50 0.3 2.22223
100 0.6 1.42223
150 1.0 0.80001
200 1.3 0.35556
250 1.6 0.08890" ]] || broken_run "table: other steps, epochs or rates than the published ones"

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

# The result as Ray prints it: the rows of AWS's example, in its order; whose numbers they are.
# result KEY - what the table says of it.
result()
{
    sed -n "s/^│ $1 *\([^ ]*\) │\$/\1/p" "$out"
}
# as_ray NUMBER
as_ray()
{
    awk -v x="$1" 'BEGIN { text = sprintf("%.5f", x); sub(/\.?0+$/, "", text); print text }'
}
[[ $(sed -n 's/^│ \([a-z_]*\) .*/\1/p' "$out" | xargs) == \
"checkpoint_dir_name time_this_iter_s time_total_s training_iteration accuracy loss" ]] ||
    broken_run "epoch: other rows than the published ones"
for key in "top1 accuracy" "loss loss"; do
    wanted=$(as_ray "$(field epoch eval "${key% *}")")
    [[ $(result "${key#* }") == "$wanted" ]] ||
        broken_run "epoch: ${key#* } is '$(result "${key#* }")', expected $wanted"
done
[[ -f $SCRATCH/epoch/checkpoints/$(result checkpoint_dir_name) ]] ||
    broken_run "epoch: no checkpoint '$(result checkpoint_dir_name)'"
first=$(result time_total_s)
[[ $(result training_iteration) == 1 && $(result time_this_iter_s) == "$first" ]] ||
    broken_run "epoch: not the first result of its run"
[[ $first == "$(as_ray "$(field epoch spent total_host_seconds)")" ]] ||
    broken_run "epoch: took $first s, by its records $(field epoch spent total_host_seconds)"
# A run that goes on behind its end: its second result, and the sum of its time and of what the
# checkpoint had told; the first part's end, writing that, is in its records alone.
told=$(run 1 inspect checkpoint "$SCRATCH/epoch/checkpoints/$(result checkpoint_dir_name)" |
    awk '$1 == "spent_host_hours" { printf "%.9f", 3600 * $2 }')
train epoch "$ranks" "${base[@]}" log.format=epoch train.epochs=3
[[ $(result training_iteration) == 2 ]] || broken_run "epoch: not the second result of its run"
awk -v first="$first" -v a="$told" -v b="$(result time_this_iter_s)" \
    -v sum="$(result time_total_s)" 'BEGIN {
        exit !(a > 0 && b > 0 && a < first && a + b - sum < 1e-3 && sum - a - b < 1e-3) }' ||
    broken_run "epoch: the checkpoint tells $told of $first s, then the second part"

# The records of metrics.jsonl and nothing else.
train json "$ranks" "${base[@]}" log.format=json
cmp -s "$out" "$SCRATCH/json/metrics.jsonl" || broken_run "json: other than metrics.jsonl"

train_fails wrong 64 "log.file" "$ranks" "log.file=%x.log"
((ranks == 1)) || train_fails wrong 64 "log.file" "$ranks" "log.file=all.log"

# What a run keeps of itself, or is given, is no place for other files.
train_fails onto 64 "log.file: $SCRATCH/onto/metrics.jsonl belongs to the run" 1 \
    "log.file=metrics.jsonl"
train_fails onto 64 "monitor.prometheus: $SCRATCH/onto/config.yaml belongs to the run" 1 \
    "monitor.prometheus=$SCRATCH/onto/config.yaml"
train_fails onto 64 "monitor.emf: $SCRATCH/small.yaml is also read" 1 \
    "monitor.emf=$SCRATCH/small.yaml"
train_fails onto 64 "monitor.prometheus: $SCRATCH/json/metrics.jsonl belongs to the run" 1 \
    "monitor.prometheus=$SCRATCH/json/metrics.jsonl"
train_fails onto 64 "monitor.prometheus: $SCRATCH/both.0.1 is also written by log.file" 1 \
    "log.file=$SCRATCH/both.%r.1" "monitor.prometheus=$SCRATCH/both.%r.%w"
[[ ! -e $SCRATCH/onto ]] || broken "onto: a run that was refused has left its folder"
mkdir "$SCRATCH/there" && cp "$SCRATCH/small.yaml" "$SCRATCH/there/config.yaml"
expect_error "a run over its own config" 64 "run.dir: the run would write its config.yaml over" 1 \
    train "$SCRATCH/there/config.yaml" --set "run.dir=$SCRATCH/there"
exit "$failed"
