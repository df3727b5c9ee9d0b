#!/usr/bin/env bash
# monitor.sh - runs that are watched: event files, Prometheus' file, CloudWatch's lines,
# GPUs of a fake NVML.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 2 1
make_config
ranks=1
have_mpi && ranks=2
export LD_LIBRARY_PATH=$PWD/$tools/fake_nvml:${LD_LIBRARY_PATH:-}
base=(train.batch_per_rank=5 train.epochs=9 "data.val=$SCRATCH/data/val" train.eval_every=1
    monitor.tensorboard=true
    "monitor.prometheus=$SCRATCH/%h.prom" "monitor.emf=$SCRATCH/emf.jsonl" monitor.gpu=on
    monitor.every_s=1 device.peak_tflops=0.25)
host=$(uname -n)

# metric NAME - the value of a metric without labels beyond the run's.
metric() { sed -nE "s/^convoy_$1\{[^}]*\} //p" "$SCRATCH/$host.prom" | head -n 1; }

train main "$ranks" "${base[@]}" train.max_steps=4
grep -qF "convoy_step{run=\"$(realpath "$SCRATCH/main")\"}" "$SCRATCH/$host.prom" ||
    broken "Prometheus: the run is not its whole folder"
[[ $(metric step) == 4 ]] || broken "Prometheus: step is $(metric step), expected 4"
[[ $(metric images_total) == $((4 * 5 * ranks)) ]] ||
    broken "Prometheus: images_total is $(metric images_total)"
[[ $(metric checkpoint_step) == 4 ]] ||
    broken "Prometheus: checkpoint_step is $(metric checkpoint_step)"
awk -v mfu="$(metric mfu_ratio)" -v speed="$(metric images_per_second)" \
    -v gflops="$(field main start image_gflops)" -v peak="$(field main start peak_tflops)" \
    'BEGIN { r = mfu / (speed * gflops / peak / 1e3); exit !(r > 0.99 && r < 1.01) }' ||
    broken "Prometheus: mfu_ratio is $(metric mfu_ratio) at $(metric images_per_second) images/s"
[[ $(metric gpu_memory_utilization_ratio) == 0.41* ]] ||
    broken "Prometheus: memory utilization is $(metric gpu_memory_utilization_ratio)"
[[ $(metric gpu_utilization_ratio) == 0.97* ]] ||
    broken "Prometheus: utilization is $(metric gpu_utilization_ratio)"
[[ $(grep -c '^convoy_gpu_power_watts{' "$SCRATCH/$host.prom") == 2 ]] ||
    broken "Prometheus: not two GPUs"
[[ -z $(echo "$SCRATCH"/*.tmp*) || ! -e $(echo "$SCRATCH"/*.tmp*) ]] ||
    broken "Prometheus: a temporary file is left"
if command -v promtool > /dev/null; then # Debian's package prometheus has it
    promtool check metrics < "$SCRATCH/$host.prom" > "$out" 2>&1 ||
        broken_run "Prometheus: promtool finds fault"
else
    echo "not tested: promtool on the Prometheus file: it is not installed (package prometheus)"
fi
# The names that the CloudWatch agent gives: https://docs.aws.amazon.com/AmazonCloudWatch/latest/
# monitoring/CloudWatch-Agent-NVIDIA-GPU.html
for name in utilization_gpu:97 utilization_memory:41 memory_total:81920 memory_used:10240 \
    power_draw: temperature_gpu: clocks_current_sm:; do
    grep -q "\"nvidia_smi_${name%:*}\":${name#*:}" "$SCRATCH/emf.jsonl" || broken "EMF: no $name"
done
grep -q '"step":4' "$SCRATCH/emf.jsonl" || broken "EMF: not the last step"
files=("$SCRATCH"/main/tensorboard/events.out.tfevents.*)
[[ ${#files[@]} == 1 ]] || broken "${#files[@]} event files, expected 1"
for tag in train/loss train/lr train/images_per_s train/mfu time/data_wait_s eval/top1; do
    grep -qa "$tag" "${files[0]}" || broken "the event file has no $tag"
done
[[ $(head -c 12 "${files[0]}" | od -An -tx1 | tr -d ' \n') == 1800000000000000a37f4b22 ]] ||
    broken "no event file"

# A run that goes on writes a file beside it.
train main "$ranks" "${base[@]}" train.max_steps=6
files=("$SCRATCH"/main/tensorboard/events.out.tfevents.*)
[[ ${#files[@]} == 2 && $(metric step) == 6 ]] ||
    broken "after resume: ${#files[@]} event files, step $(metric step)"

# A look at the GPUs each second is in metrics.jsonl; what cannot be written costs a warning,
# not the run.
train_in_background long 1 "${base[@]}" train.epochs=90000 log.every=1000
wait_for_step long 1
sleep 2.5
kill -USR1 "$pid"
wait_to_end 30
((code == 75)) || broken "long: exit code $code, expected 75"
sound_metrics long
[[ $(events long gpu) -ge 2 ]] || broken "long: $(events long gpu) looks at GPUs in 2 seconds"
expect "report of a run with GPUs" 0 run 1 report "$SCRATCH/long"
sound_tables "$SCRATCH/long/report.html"
for text in 'aria-label="GPU utilisation"' 'aria-label="GPU memory"' 'aria-label="GPU power"' \
    'aria-label="GPU clock"' '<h2>GPUs</h2>'; do
    grep -qF "$text" "$SCRATCH/long/report.html" || broken "the report does not hold '$text'"
done
train broken 1 "${base[@]}" train.max_steps=2 monitor.prometheus=/dev/null/x.prom \
    monitor.emf=/dev/full
expect_text "broken" 1 "x.prom"
expect_text "broken" 1 "/dev/full: cannot write"

# On standard output: the GPUs of rank 0's host, and a warning that those of the other are not
# there, since launchers tear lines of several hosts. Into a pipe: every host's, every line whole.
# emf_lines PATTERN - how many lines of the last output are whole and hold it
emf_lines() { grep -cE "^\\{\"_aws\".*\"CloudWatchMetrics\".*$1.*\\}\$" "$out"; }
if have_mpi; then
    source tests/e2e/lib/hosts.sh
    make_hosts h1 h2
    mkfifo "$SCRATCH/pipe"
    cat "$SCRATCH/pipe" > "$SCRATCH/piped" &
    exec 9> "$SCRATCH/pipe"
    for emf in - /proc/$$/fd/9; do
        settings "hosts${emf%%/*}" "${base[@]}" train.max_steps=2 "monitor.emf=$emf" \
            monitor.prometheus= monitor.every_s=1000 # once, at the end
        expect "two hosts" 0 timeout --kill-after=5 60 mpirun --host h1,h2 -n 2 \
            --mca plm_rsh_agent "$SCRATCH/agent" "$CONVOY" train "${sets[@]}"
        hosts=1
        [[ $emf == - ]] || hosts=2
        expect_text "two hosts, $emf" $((2 - hosts)) "monitor.emf: - only has the GPUs of this host"
        [[ $emf == - ]] || { exec 9>&- && wait $! && cat "$SCRATCH/piped" > "$out"; }
        for gpu in 0 1; do
            lines=$(emf_lines "\"gpu\":\"$gpu\"")
            ((lines == hosts)) ||
                broken_run "two hosts, $emf: $lines lines of GPU $gpu"
        done
        (($(emf_lines '"step":2') == 1)) || broken_run "two hosts, $emf: no step 2"
    done
fi

settings no-nvml monitor.gpu=on
ldconfig -p 2> /dev/null | grep libnvidia-ml.so.1 > /dev/null ||
    LD_LIBRARY_PATH='' expect_error "no NVML" 78 "monitor.gpu" 1 train "${sets[@]}"
exit "$failed"
