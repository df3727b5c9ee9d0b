#!/usr/bin/env bash
# energy.sh - what runs spend, by a made-up powercap tree: one package and its dram that use 10 W
# and 2 W and whose counters go round every two seconds. The parts of a run that was stopped and
# went on are its total, its total is what the counters tell, and prices are the user's.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 6 # evaluations take longer than a tick of the counters
make_config
ranks=1
have_mpi && ranks=2
tree=$SCRATCH/powercap

# make_zone ZONE NAME RANGE_UJ
make_zone()
{
    mkdir -p "$tree/$1"
    echo "$2" > "$tree/$1/name"
    echo "$3" > "$tree/$1/max_energy_range_uj"
    echo 0 > "$tree/$1/energy_uj"
}
make_zone intel-rapl:0 package-0 19999999
make_zone intel-rapl:0:0 core 19999999
make_zone intel-rapl:0:1 dram 3999999
# The counters are late by at most what $tree/late tells, in microseconds: however busy the machine.
tick()
{
    local us last=${EPOCHREALTIME/[.,]/} late=0
    while sleep 0.01 && [[ ! -e $tree/stop ]]; do
        us=${EPOCHREALTIME/[.,]/}
        if ((us - last > late)); then
            echo $((late = us - last)) > "$tree/later"
            mv "$tree/later" "$tree/late"
        fi
        last=$us
        echo $((us * 10 % 20000000)) > "$tree/package"
        echo $((us * 2 % 4000000)) > "$tree/dram"
        mv "$tree/package" "$tree/intel-rapl:0/energy_uj"
        mv "$tree/dram" "$tree/intel-rapl:0:1/energy_uj"
    done
}
tick &
ticker=$!
trap 'kill $ticker 2> /dev/null' EXIT
sleep 0.1

# sum RUN KEY [PART] - over the records of what was spent, of all processes.
sum()
{
    awk -v key="\"$2\":" -v part="\"part\":\"${3-}" '
        index($0, "\"event\":\"spent\"") && index($0, part) && (at = index($0, key)) {
            sum += substr($0, at + length(key)) + 0
        }
        END { printf "%.9g", sum }' "$SCRATCH/$1/metrics.jsonl"
}

# lasted RUN - seconds from the end of each of its starts to the last that was spent behind it.
lasted()
{
    awk '!/"event":"spent"/ { next }
        { match($0, /"time":[0-9.]+/); time = substr($0, RSTART + 7, RLENGTH - 7) }
        /"part":"start"/ { sum += last - start; start = time }
        { last = time }
        END { printf "%.6f", sum + last - start }' "$SCRATCH/$1/metrics.jsonl"
}

# close_to WHAT VALUE WANT SHARE
close_to()
{
    awk -v a="$2" -v b="$3" -v share="$4" \
        'BEGIN { exit !(b > 0 && a - b < share * b && b - a < share * b) }' ||
        broken "$1: $2, expected $3 to $4"
}

base=(train.batch_per_rank=5 train.epochs=90000 "data.val=$SCRATCH/data/val" train.eval_every=10
    checkpoint.every_epochs=10 "cost.powercap=$tree" cost.price_per_host_hour=36
    cost.currency=USD "cost.price_note=made up")
train_in_background main "$ranks" "${base[@]}" train.max_steps=90000
wait_for_step main 160
kill -USR1 "$pid"
wait_to_end 60
((code == 75)) || broken "main: exit code $code, expected 75"
[[ $(field main spent total_j) != 0 ]] || broken "main: nothing was spent before the stop"
expect "inspect" 0 run 1 inspect checkpoint "$(latest main)"
expect_text "inspect" 1 "spent_joules "
# what training waits for checkpoints may be less than the counters' tick, for commands it is not
steps=$(($(field main step step) + 160))
train main "$ranks" "${base[@]}" "train.max_steps=$steps" "checkpoint.on_save=sleep 0.1"

total=$(field main spent total_j) hosts_s=$(field main spent total_host_seconds)
close_to "parts and total" "$(sum main cpu_j)" "$total" 0.01
close_to "time of parts and of the whole" "$(sum main host_seconds)" "$hosts_s" 0.01
close_to "12 W" "$total" "$(awk -v s="$hosts_s" 'BEGIN { print 12 * s }')" \
    "$(awk -v s="$hosts_s" -v late="$(< "$tree/late")" 'BEGIN { print 0.01 + 2e-6 * late / s }')"
close_to "the whole" "$(awk -v all="$hosts_s" -v start="$(sum main host_seconds start)" \
    'BEGIN { print all - start }')" "$(lasted main)" 0.01
for part in start train evaluation checkpoint; do
    [[ $(sum main cpu_j "$part") != 0 ]] || broken "no energy went to $part"
done
[[ $(sum main images train) == $((steps * 5 * ranks)) ]] ||
    broken "$(sum main images train) images were trained on"
close_to "money" "$(field main spent total_cost)" \
    "$(awk -v s="$hosts_s" 'BEGIN { print s / 100 }')" 0.001
close_to "money of parts" "$(sum main cost)" "$(field main spent total_cost)" 0.01
expect_text "the last lines" 1 "USD (36 per host hour; made up), "
expect_field "the price" main spent price_note "made up"
expect_field "source" main epoch energy_source "CPUs of 1 of 1 hosts by RAPL"
grep -q '"joules_per_image":[0-9.]*[1-9]' "$SCRATCH/main/metrics.jsonl" ||
    broken "no joules an image"
expect "report" 0 run 1 report "$SCRATCH/main"
sound_tables "$SCRATCH/main/report.html"
for text in "Energy and cost" "USD (36 per host hour; made up)" "hosts by RAPL"; do
    grep -qF "$text" "$SCRATCH/main/report.html" || broken "the report does not hold '$text'"
done

# what a killed process spent behind its checkpoint is not in the sums that go on
train_in_background killed "$ranks" "${base[@]}" train.max_steps=90000
wait_for_ranks "$ranks"
wait_for_step killed 170
kill -9 "${processes[0]}"
wait_to_end 60
expect_gone killed "${processes[@]}"
saved=$(basename "$(latest killed)" .safetensors)
train killed "$ranks" "${base[@]}" "train.max_steps=$((10#${saved#step-} + 20))"
awk -v all="$(sum killed cpu_j)" -v total="$(field killed spent total_j)" \
    'BEGIN { exit !(total > 0 && all >= total) }' || broken "killed: sums did not go on"

# on slow files it is mostly spent in waits, as long as steps say that they waited
SLOW_FILES_MATCH=.jp SLOW_FILES_MS=100 LD_PRELOAD=$PWD/build/slow_files.so \
    train slow 1 "${base[@]}" data.readers=1 train.eval_every=0 train.max_steps=8 \
    "monitor.prometheus=$SCRATCH/slow.prom"
prices='currency="USD",prices="36 per host hour; made up"'
grep -q "^convoy_cost_total{run=\"/[^\"]*/slow\",$prices," \
    "$SCRATCH/slow.prom" || broken "Prometheus does not tell of money"
close_to "waits" "$(sum slow host_seconds wait)" "$(awk '
    /"event":"step"/ { match($0, /"data_wait_ms":[0-9.]+/)
        sum += substr($0, RSTART + 15, RLENGTH - 15) / 1000 }
    END { print sum }' "$SCRATCH/slow/metrics.jsonl")" 0.01
awk -v wait="$(sum slow cpu_j wait)" -v train="$(sum slow cpu_j train)" \
    'BEGIN { exit !(wait > train) }' || broken "slow: waits are not most of the energy"

# assumed, and told so; a counter that cannot be read costs a line
train assumed "$ranks" "${base[@]}" cost.powercap= cost.host_watts=100 train.max_steps=8
close_to "100 W" "$(field assumed spent total_j)" \
    "$(awk -v s="$(field assumed spent total_host_seconds)" 'BEGIN { print 100 * s }')" 0.0001
expect_field "assumed" assumed spent energy_source "1 of 1 hosts by the estimate in cost.host_watts"
touch "$tree/stop"
wait "$ticker"
rm "$tree/intel-rapl:0/energy_uj"
mkdir "$tree/intel-rapl:0/energy_uj"
train unread "$ranks" "${base[@]}" train.max_steps=8
expect_text "unread" 1 \
    "the energy of CPUs is not measured: $tree/intel-rapl:0/energy_uj: Is a directory"
[[ $(events unread spent) -gt 0 && $(field unread spent total_j) == 0 ]] ||
    broken "unread: energy from nowhere"

train nowhere 1 "${base[@]}" "cost.powercap=$SCRATCH/none" train.max_steps=8
expect_text "nowhere" 1 "cost.powercap: $SCRATCH/none has no energy counters"
train_fails price 64 "cost.price_per_kwh" 1 cost.price_per_kwh=-0.1
train_fails watts 64 "cost.host_watts" 1 cost.host_watts=-1
exit "$failed"
