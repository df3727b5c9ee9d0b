#!/usr/bin/env bash
# scale.sh - convoy scale: a series through mpirun, stopped in the middle and continued; the printed
# lines; the report of the folder.
source tests/e2e/lib/common.sh
have_mpi || { echo "built without Open MPI" && exit 77; }
make_config
series=$SCRATCH/series
args=("$SCRATCH/small.yaml" --set "scale.dir=$series" --set "scale.ranks=1,2,3"
    --set scale.repeats=1 --set scale.steps=4 --set scale.warmup_steps=2
    --set scale.data=synthetic --set data.synthetic_images=64 --set model.classes=10
    --set device.threads=1)

# points - names of the points that scale.jsonl tells of, in order
points()
{
    sed -nE 's/.*"event":"point".*"run":"([^"]*)".*/\1/p' "$series/scale.jsonl" 2> /dev/null |
        tr '\n' ' '
}

# stopped while the second point runs: the first one stays
"$CONVOY" scale "${args[@]}" --set train.epochs=9 \
    --set scale.steps=2000 > "$SCRATCH/stopped.out" 2>&1 &
pid=$!
wait_for_step series/n1-r1 3
expect_error "two at once" 74 "$series: another convoy scale is using" 1 scale "${args[@]}" \
    --set train.epochs=9 --set scale.steps=2000
kill -TERM "$pid"
wait_to_end 30
((code == 75)) || broken "stopped: exit code $code, expected 75"
grep -q 'the same command continues' "$SCRATCH/stopped.out" ||
    broken "stopped: does not say that it goes on"
[[ -z $(points) ]] || broken "stopped: scale.jsonl tells of $(points)"

expect "the series" 0 run 1 scale "${args[@]}"
[[ $(points) == "n1-r1 n2-r1 n3-r1 " ]] || broken_run "points: $(points)"
[[ $(events series/n1-r1 done) == 2 ]] || broken "the run that was stopped did not begin anew"
expect "the series again" 0 run 1 scale "${args[@]}"
expect_text "the series again" 3 "already finished"
# Runs are worth their time where nobody reads what is said of them; answers are not.
for option in "" --collect; do
    "$CONVOY" scale "${args[@]}" ${option:+"$option"} > /dev/full 2> "$out"
    code=$?
    ((code == (${#option} ? 74 : 0))) || broken_run "scale $option into a full file: $code"
done
expect "one repeat more" 0 run 1 scale "${args[@]}" --set scale.repeats=2 --set scale.ranks=1
expect_text "one repeat more" 1 "already finished"
[[ $(points) == "n1-r1 n1-r2 " ]] || broken "points of one number of ranks: $(points)"
# what auto was in a run is no other setting
expect "a point in the precision that auto takes" 0 run 1 scale "${args[@]}" \
    --set "scale.dir=$SCRATCH/auto" --set scale.ranks=1 --set train.precision=auto
expect "the same again" 0 run 1 scale "${args[@]}" --set "scale.dir=$SCRATCH/auto" \
    --set scale.ranks=1 --set train.precision=auto
expect_text "the same again" 1 "already finished"
expect_error "other settings" 64 "optimizer.lr was" 1 scale "${args[@]}" --set optimizer.lr=0.5

# what is printed is what would be run, and a shell takes it as it is
expect "lines for mpirun" 0 run 1 scale "${args[@]}" --set scale.repeats=2 --set "scale.ranks=1,2" \
    --print mpirun
expect_text "lines for mpirun" 1 "mpirun -np 2 --bind-to none"
[[ $(wc -l < "$out") == 1 ]] || broken_run "lines for mpirun: only one point is not finished"
mkdir "$SCRATCH/bin"
printf '#!/bin/sh\necho "$RANKS $*" >> "%s/jobs"\n' "$SCRATCH" > "$SCRATCH/bin/sbatch"
chmod +x "$SCRATCH/bin/sbatch"
expect "lines for sbatch" 0 run 1 scale "${args[@]}" --set "scale.dir=$SCRATCH/cluster" \
    --set "scale.ranks=1,2,16" --set device.backend=auto --print sbatch --per-node 8
PATH=$SCRATCH/bin:$PATH bash "$out"
job='^8 --job-name=n16-r1 --nodes=2 --gpus-per-node=8 scripts/slurm/train.sbatch '
grep -q "$job.*run.dir=[^ ]*/n16-r1" "$SCRATCH/jobs" ||
    broken_run "no job of 16 ranks on two nodes"
[[ $(wc -l < "$SCRATCH/jobs") == 3 ]] || broken "$(wc -l < "$SCRATCH/jobs") jobs, expected 3"

expect "collect" 0 run 1 scale "${args[@]}" --collect
expect_text "collect" 1 "3 of 3 points are finished"
expect_text "collect" 0 "one epoch"
# prices are no other settings: points stay, and cost what they now say
expect "prices" 0 run 1 scale "${args[@]}" --collect --set cost.price_per_host_hour=36 \
    --set cost.currency=USD
cost=$(sed -nE 's/.* 2 ranks: one epoch, ([^ ]+) USD \(36 per host hour\), [0-9].*/\1/p' "$out")
time=$(awk '$0 ~ /^convoy/ { next } $1 == 2 && NF > 7 { print $3 }' "$out")
awk -v cost="$cost" -v s="$time" \
    'BEGIN { exit !(s > 0 && (cost - s / 100) ^ 2 < (s / 5000) ^ 2) }' ||
    broken_run "prices: an epoch of $time s costs $cost"
expect "report of the series" 0 run 1 report "$series" --out "$SCRATCH/same.html"
cmp -s <(grep -v ' written ' "$SCRATCH/same.html") <(grep -v ' written ' "$series/report.html") ||
    broken "convoy report draws another page than convoy scale"
for text in "scaling report" "Epoch time against ranks" 'data-x="2"' "oversubscribed"; do
    [[ $text == oversubscribed && $(nproc) -ge 3 ]] && continue
    grep -qF "$text" "$series/report.html" || broken "the report does not hold '$text'"
done
[[ $(cut -d, -f1 "$series/report.scaling.csv" | tr '\n' ' ') == "ranks 1 2 3 " ]] ||
    broken "report.scaling.csv has other rows"
expect_error "a prediction from nothing" 65 "no finished point with one rank" 1 scale "${args[@]}" \
    --set "scale.dir=$SCRATCH/none" --predict configs/fabrics/p3.16xlarge.json
expect_error "a prediction for no fabric" 65 "none.json" 1 scale "${args[@]}" --predict none.json
expect "a prediction" 0 run 1 scale "${args[@]}" \
    --predict configs/fabrics/p4d.24xlarge-efa.json,configs/fabrics/p4d.24xlarge-tcp.json
expect_text "a prediction" 2 "prediction, not a measurement"
grep -qxE ' *ranks +buckets +sums ms +step ms +images/s +effic. %' "$out" ||
    broken_run "a prediction: other columns"
grep -qF 'Predictions, not measurements' "$series/report.html" ||
    broken "the report does not show the predictions"
grep -qF 'data-x="256"' "$series/report.html" ||
    broken "the report does not draw the prediction for 256 ranks"
expect "predictions alone" 0 run 1 scale "${args[@]}" --set "scale.dir=$SCRATCH/alone" \
    --predict configs/fabrics/p3.16xlarge.json --rate 100
expect_text "predictions alone" 1 "scale.ranks: ignored by this command: with --predict, --ranks"
expect "other ranks" 0 run 1 scale "${args[@]}" --set "scale.dir=$SCRATCH/alone" \
    --predict configs/fabrics/p3.16xlarge.json --rate 100 --ranks 160,12
[[ $(awk '$0 ~ /^convoy/ { next } NF == 6 && $1 > 0 { print $1 }' "$out" | tr '\n' ' ') == \
    "160 12 " ]] || broken_run "other ranks than 160 and 12"
# what does not depend on images, and ranks that differ: steps take longer
alone=("${args[@]}" --set "scale.dir=$SCRATCH/alone" --set train.batch_per_rank=16
    --predict configs/fabrics/dgx-h100.json --ranks 64)
last=0
for terms in "" "--op-us 20" "--op-us 20 --fixed-ms 3" "--op-us 20 --fixed-ms 3 --spread 5"; do
    # shellcheck disable=SC2086
    expect "terms '$terms'" 0 run 1 scale "${alone[@]}" --rate 10000@256 $terms
    step=$(awk '$0 ~ /^convoy/ { next } NF == 6 && $1 == 64 { print $4 }' "$out")
    awk -v step="$step" -v last="$last" 'BEGIN { exit !(step > last) }' ||
        broken_run "terms '$terms': a step of $step ms, $last ms without the last one"
    last=$step
done
expect "all terms" 0 run 1 scale "${alone[@]}" --rate 10000@256 --op-us 20 --fixed-ms 3 \
    --spread 5 --no-overlap
awk 'NF == 6 && $1 == 64 { n++; if ($2 != 1) exit 1 } END { exit n != 1 }' "$out" ||
    broken_run "all terms: not one sum"
expect_text "all terms" 1 "ranks differ by 5 %"
expect_text "all terms" 1 "operations of 20 us, and 3 ms"
expect_text "all terms" 1 "one sum of all gradients, after the backward pass"
expect_error "no time for images" 64 "operations and the rest take as long as a whole" 1 scale \
    "${alone[@]}" --rate 10000@256 --fixed-ms 25.6
expect_error "a rate of no images" 64 "--rate 100@0" 1 scale "${alone[@]}" --rate 100@0
expect_error "a long rate" 64 "must be a number from 1e-6" 1 scale "${alone[@]}" \
    --rate "$(printf "1%.0s" {1..70})"
expect_error "no rate" 64 "--rate x@3" 1 scale "${alone[@]}" --rate x@3
expect_error "hardly a rate" 64 "the number of images after @" 1 scale "${alone[@]}" \
    --rate 100@1e-300
expect_error "too wide a spread" 64 "--spread 101" 1 scale "${alone[@]}" --rate 100 --spread 101
expect_error "no spread" 64 "--spread -1" 1 scale "${alone[@]}" --rate 100 --spread=-1
for option in "--ranks 3" "--rate 5" "--op-us 1" "--fixed-ms 1" "--spread 1" --no-overlap; do
    # shellcheck disable=SC2086
    expect_error "runs with $option" 64 "${option%% *} requires --predict" 1 scale \
        "${args[@]}" $option
done
expect_error "no ranks" 64 "--ranks 12,,3" 1 scale "${args[@]}" \
    --predict configs/fabrics/p3.16xlarge.json --rate 100 --ranks 12,,3
grep -qF 'Scaling needs runs on' "$SCRATCH/alone/report.html" ||
    broken "the report of predictions alone does not say that nothing was measured"
expect_error "a point that fails" 65 "n1-r1.log" 1 scale "${args[@]}" \
    --set "scale.dir=$SCRATCH/fails" --set scale.data=real --set data.train=/none
exit "$failed"
