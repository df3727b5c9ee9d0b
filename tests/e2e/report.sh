#!/usr/bin/env bash
# report.sh - convoy report of real runs: one, several with different numbers of ranks,
# one that was killed; what it refuses.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 2
make_config

# page_holds FILE TEXT... - it is there and holds each text; tables of a page are whole.
page_holds()
{
    local file=$1 text
    shift
    for text in "$@"; do grep -qF -- "$text" "$file" || broken "$file: does not hold '$text'"; done
    [[ $file != *.html ]] || sound_tables "$file"
}

train one 1 train.epochs=3 "data.val=$SCRATCH/data/val"
expect "report of one run" 0 run 1 report "$SCRATCH/one"
page_holds "$SCRATCH/one/report.html" "Training loss" "Evaluation: top-1" "Waiting for data" \
    "resnet20" "config.yaml" "</html>" "prefers-color-scheme:dark" "<title>steps 1" \
    '<section id="by-time" class="by">' "started"
# nothing averages weights, no GPU is there: nothing is drawn of them
! grep -qE 'aria-label="(Evaluation: top-1 of|GPU )' "$SCRATCH/one/report.html" ||
    broken "the page has plots of what was not recorded"
! grep -qiE '<script|https?://[^w]|src=' "$SCRATCH/one/report.html" ||
    broken "the page needs more than itself"
[[ $(grep -c '^one,step,' "$SCRATCH/one/report.csv") == $(events one step) ]] ||
    broken "report.csv has not every step"
[[ ! -e $SCRATCH/one/report.scaling.csv ]] || broken "one run is no scaling report"

if have_mpi; then
    train two 2 train.epochs=3
    expect "report of one and two ranks" 0 run 1 report "$SCRATCH/one" "$SCRATCH/two" \
        --out "$SCRATCH/both.html"
    page_holds "$SCRATCH/both.html" "Epoch time against ranks" "Efficiency" \
        "images of an epoch" 'data-x="2"'
    # in the order of ranks, however they are named
    expect "report of two ranks and one" 0 run 1 report "$SCRATCH/two" "$SCRATCH/one" \
        --out "$SCRATCH/turned.html"
    first=$(grep -oE '<td class="text">(one|two)</td>' "$SCRATCH/turned.html" | head -n 1)
    [[ $first == *one* ]] ||
        broken "runs are not in the order of their ranks"
    # epoch_s of the table: the mean of the epochs behind the first one,
    # as if each had had all images and no more
    want=$(awk -v all="$(field two start images)" '
        /"event":"epoch"/ && !/"epoch":0,/ {
            match($0, /"seconds":[^,]+/); seconds = substr($0, RSTART + 10, RLENGTH - 10)
            match($0, /"images":[^,]+/); images = substr($0, RSTART + 9, RLENGTH - 9)
            sum += seconds * all / images; n++
        }
        END { printf "%.6f", sum / n }' "$SCRATCH/two/metrics.jsonl")
    got=$(awk -F, '$1 == 2 { printf "%.6f", $10 }' "$SCRATCH/both.scaling.csv")
    awk -v a="$want" -v b="$got" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (0.001 * a) ^ 2) }' ||
        broken "epoch_s is $got, by hand $want"
fi

# the share of a peak that is given: images/s x FLOPs of an image over it, a rank's times the ranks
grep -q mfu "$SCRATCH/one/metrics.jsonl" && broken "mfu without a peak"
ranks=1
have_mpi && ranks=2
train mfu "$ranks" train.epochs=1 device.peak_tflops=0.25
expect_field "the peak of all ranks" mfu start peak_tflops \
    "$(awk -v n="$ranks" 'BEGIN { print 0.25 * n }')"
awk -v got="$(field mfu step mfu)" -v speed="$(field mfu step images_per_s)" \
    -v gflops="$(field mfu start image_gflops)" -v peak="$(field mfu start peak_tflops)" \
    'BEGIN { want = speed * gflops / 1000 / peak
             exit !(want > 0 && (got / want - 1) ^ 2 < 1e-10) }' ||
    broken "mfu is not images/s times FLOPs of an image over the peak"
expect "report with mfu" 0 run 1 report "$SCRATCH/mfu"
page_holds "$SCRATCH/mfu/report.html" 'aria-label="Model FLOPs utilisation"'
expect "top with mfu" 0 run 1 top "$SCRATCH/mfu" --once
expect_text "top with mfu" 1 "MFU "
expect_text "top with mfu" 1 "total used "
expect_error "a peak below 0" 64 "device.peak_tflops" 1 train "$SCRATCH/small.yaml" \
    device.peak_tflops=-1

# killed in the middle: unfinished, with a torn line
train_in_background killed 1 train.epochs=1000
wait_for_step killed 3
kill -9 "$pid"
wait "$pid" 2> /dev/null
printf '{"event":"step","ep' >> "$SCRATCH/killed/metrics.jsonl"
expect "report of a killed run" 0 run 1 report "$SCRATCH/killed"
page_holds "$SCRATCH/killed/report.html" "unfinished" "is incomplete and was left out"

# watched: before it begins, while it goes on, to its end
"$CONVOY" report "$SCRATCH/live" --watch --every 0.3 --out "$SCRATCH/live.html" \
    > "$SCRATCH/watch.out" 2>&1 &
watcher=$!
for ((i = 0; i < 100; i++)); do
    grep -q 'waiting for the run to appear' "$SCRATCH/watch.out" && break
    sleep 0.1
done
train_in_background live 1 train.epochs=1000
wait_for_step live 3
for ((i = 0; i < 100; i++)); do
    grep -q 'Training loss' "$SCRATCH/live.html" 2> /dev/null && break
    sleep 0.1
done
page_holds "$SCRATCH/live.html" '<meta http-equiv="refresh" content="1">' "unfinished"
[[ ! -e $SCRATCH/live.csv ]] || broken "a live page has its CSV before the end"
kill -0 "$watcher" || broken "the watcher ended before the run"
kill -TERM "$pid"
wait "$pid"
for ((i = 0; i < 100; i++)); do
    kill -0 "$watcher" 2> /dev/null || break
    sleep 0.1
done
kill "$watcher" 2> /dev/null && broken "the watcher did not end with the run"
wait "$watcher" || broken "the watcher ended with $?"
page_holds "$SCRATCH/watch.out" "waiting for the run to appear" "written every 0.3 s" "live.csv"
page_holds "$SCRATCH/live.html" "stopped, checkpoint saved (75)"
! grep -q 'http-equiv="refresh"' "$SCRATCH/live.html" || broken "the last page goes on refreshing"
# killed long ago: nobody holds its folder, so it is not watched for ever; held, it goes on
mkdir "$SCRATCH/dead" && cp "$SCRATCH/killed/metrics.jsonl" "$SCRATCH/dead"
touch -d '1 hour ago' "$SCRATCH/dead/metrics.jsonl"
expect "watch of a killed run" 0 timeout 60 "$CONVOY" report "$SCRATCH/dead" "$SCRATCH/one" \
    --watch --every 0.2 --out "$SCRATCH/dead.html"
expect_text "watch of a killed run" 1 \
    "$SCRATCH/dead: the run has not ended, and nothing writes there any more"
[[ -e $SCRATCH/dead.csv ]] || broken "watch of a killed run: the last page lacks its CSV"
expect "watch of a run that is held" 124 flock "$SCRATCH/dead/metrics.jsonl" timeout 2 "$CONVOY" \
    report "$SCRATCH/dead" --watch --every 0.2 --out "$SCRATCH/dead.html"

# A folder of convoy scale has ended when all points have; one that lacks some is given up unless a
# convoy scale is at work there or jobs may come, which hold no lock.
mkdir "$SCRATCH/series" && cp -r "$SCRATCH/one" "$SCRATCH/series/n1-r1"
watch_series()
{
    printf '%s\n' "{\"event\":\"scale\",\"repeats\":$2,\"ranks\":[1]}" \
        '{"event":"point","ranks":1,"run":"n1-r1"}' > "$SCRATCH/series/scale.jsonl"
    touch -d "$written" "$SCRATCH/series/n1-r1/metrics.jsonl"
    touch -d '1 hour ago' "$SCRATCH/series/scale.jsonl"
    expect "watch of a $1 series" "$3" "${@:4}" timeout "$((3 + 27 * ($3 == 0)))" "$CONVOY" report \
        "$SCRATCH/series" --watch --every 0.2
}
written='1 hour ago'
watch_series complete 1 0
watch_series queued 2 124
touch "$SCRATCH/series/scale.lock"
watch_series killed 2 0
expect_text "watch of a killed series" 1 \
    "series: points are missing, and nothing writes there any more"
watch_series held 2 124 flock "$SCRATCH/series/scale.lock"
written=now # by a point whose lock, of another host, is not seen
watch_series distant 2 124

expect_error "every without watch" 64 "--every requires --watch" 1 report "$SCRATCH/one" --every 5
expect_error "every 0 seconds" 64 "--every 0: must be a number from 0.01" 1 report \
    "$SCRATCH/one" --watch --every 0

mkdir "$SCRATCH/empty"
expect_error "report of an empty folder" 64 "$SCRATCH/empty: not a run folder" \
    1 report "$SCRATCH/empty"
expect_error "report of nothing" 64 "$SCRATCH/none: no such run folder" 1 report "$SCRATCH/one" \
    "$SCRATCH/none"
expect_error "report without a run" 64 "missing argument RUN" 1 report
expect_error "report to another kind of file" 64 "must end in .html" \
    1 report "$SCRATCH/one" --out x.pdf
expect_error "report to a folder that is not there" 74 "$SCRATCH/no/x.html" \
    1 report "$SCRATCH/one" --out "$SCRATCH/no/x.html"
exit "$failed"
