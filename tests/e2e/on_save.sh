#!/usr/bin/env bash
# on_save.sh - checkpoint.on_save in whole runs: files are copied, kept as long as they are read,
# and failures fail nothing.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 1
make_config
ranks=1
have_mpi && ranks=2
base=(train.batch_per_rank=5 checkpoint.every_steps=1 checkpoint.every_epochs=0 checkpoint.keep=1
    train.epochs=9 train.max_steps=6)

# Every result has its record, and the last checkpoint is always among the copies.
mkdir "$SCRATCH/bucket"
train copied "$ranks" "${base[@]}" \
    "checkpoint.on_save=sleep 0.2; cp \"\$CONVOY_CHECKPOINT\" $SCRATCH/bucket/\$CONVOY_STEP \
&& test -d \$CONVOY_RUN_DIR"
cmp -s "$SCRATCH/bucket/6" "$(latest copied)" || broken_run "the last checkpoint was not copied"
expect_field "copied" copied on_save outcome "done"
[[ $(events copied on_save) == 6 ]] ||
    broken "copied: $(events copied on_save) results of 6 checkpoints"
grep -F '"event":"on_save"' "$SCRATCH/copied/metrics.jsonl" | grep -qF '"outcome":"failed"' &&
    broken_run "copied: a file vanished before it was copied"
for copy in "$SCRATCH"/bucket/*; do
    "$CONVOY" inspect checkpoint "$copy" > "$out" 2>&1 || broken_run "$copy is no whole checkpoint"
done

# A command that fails: one warning a checkpoint with its last words; the run is as good as any.
train failing "$ranks" "${base[@]}" train.max_steps=2 checkpoint.every_steps=0 \
    "checkpoint.on_save=echo try; echo access denied >&2; exit 3"
expect_text "failing" 1 \
    "convoy train: warning: checkpoint.on_save: exit code 3 for step 2: access denied"
expect_field "failing" failing on_save outcome failed
expect_field "failing" failing on_save code 3

# The end of the run waits no longer than the limit.
start=$SECONDS
train endless "$ranks" "${base[@]}" train.max_steps=2 checkpoint.every_steps=0 \
    checkpoint.on_save_timeout_s=1 "checkpoint.on_save=exec sleep $((1000000 + $$))"
((SECONDS - start < 60)) || broken "endless: took $((SECONDS - start)) s"
expect_text "endless" 1 "checkpoint.on_save: killed after 1 s"
still_runs() {
    grep -qsx "sleep.$1." <(for p in /proc/[0-9]*/cmdline; do
        tr '\0' . < "$p"
        echo
    done 2> /dev/null)
}
still_runs $((1000000 + $$)) && broken "endless: the command still runs"

# What commands leave in the background works on beside the run, and ends with it.
both="(sleep $((3000000 + $$)) &); nohup sleep $((4000000 + $$)) > /dev/null 2>&1 &"
train left 1 "${base[@]}" train.max_steps=2 "checkpoint.on_save=$both"
expect_field "left" left on_save outcome "done"
still_runs $((3000000 + $$)) && broken "left: what was left in the background outlives the run"
still_runs $((4000000 + $$)) && broken "left: what nohup started outlives the run"

# A run that is killed takes the command along, with what the command has started.
train_in_background killed 1 "${base[@]}" train.epochs=9000 train.max_steps=90000 \
    "checkpoint.on_save=sleep $((2000000 + $$)); true"
for ((tries = 0; tries < 400; tries++)); do
    still_runs $((2000000 + $$)) && break
    sleep 0.05
done
still_runs $((2000000 + $$)) || broken "killed: the command does not run"
kill -9 "$pid"
wait "$pid" 2> /dev/null
for ((tries = 0; tries < 100; tries++)); do
    still_runs $((2000000 + $$)) || break
    sleep 0.05
done
still_runs $((2000000 + $$)) && broken "killed: what the command has started still runs"
exit "$failed"
