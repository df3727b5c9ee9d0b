#!/usr/bin/env bash
# sweep.sh - examples/sweep.py: a grid is tried whole, a search that was killed goes on where it
# was, two at once share the work, and the report compares the runs. Needs Optuna.
source tests/e2e/lib/common.sh
python3 -c 'import optuna' 2> /dev/null || {
    echo "not tested: examples/sweep.py: python3 has no optuna"
    exit 77
}
make_data "$SCRATCH/data" 4 2
make_config
sed -i "s|^data:|&\n  val: $SCRATCH/data/val|; s|^train:|&\n  max_steps: 40|" "$SCRATCH/small.yaml"
sweep()
{
    timeout 120 python3 examples/sweep.py "$SCRATCH/$1" "$SCRATCH/small.yaml" \
        --command "$CONVOY train" "${@:2}"
}
grid=(optimizer.lr=0.01,0.02 train.label_smoothing=0,0.1)
sweep grid "${grid[@]}" > "$out" 2>&1 &
for ((i = 0; i < 300; i++)); do
    ! grep -qs '"event":"step"' "$SCRATCH"/grid/*/metrics.jsonl || break
    sleep 0.1
done
pkill -KILL -f "sweep.py $SCRATCH/grid" && pkill -KILL -f "run.dir=$SCRATCH/grid"
wait $! 2> /dev/null
[[ ! -e $SCRATCH/grid/report.html ]] || broken "the search was over before it was killed"
sweep grid "${grid[@]}" > "$SCRATCH/other" 2>&1 &
expect "continue" 0 sweep grid "${grid[@]}"
wait $! || broken "the other of two: $(cat "$SCRATCH/other")"
runs=("$SCRATCH"/grid/*=*/)
((${#runs[@]} == 4)) || broken "${#runs[@]} runs of a grid of four"
for run in "${runs[@]}"; do
    grep -q '"event":"done".*"code":0' "$run/metrics.jsonl" || broken "$run did not end"
done
best=$(sed -n 's/.*"event":"eval".*"top1":\([0-9.]*\).*/\1/p' "$SCRATCH"/grid/*=*/metrics.jsonl |
    sort -g | tail -1)
expect_text "the best is named" 1 "best: $(printf %.4f "$best") with"
grep -q 'optimizer.lr' "$SCRATCH/grid/report.html" || broken "no report"
expect "a range" 0 sweep range optimizer.lr=0.01..0.1 --trials 2
expect "a range again" 0 sweep range optimizer.lr=0.01..0.1 --trials 2
runs=("$SCRATCH"/range/*=*/)
((${#runs[@]} == 2)) || broken "${#runs[@]} runs of two trials"
expect "a range as a grid" 2 sweep none optimizer.lr=0.01..0.1
expect_text "a range as a grid" some "a range requires --trials"
exit "$failed"
