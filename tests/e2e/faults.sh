#!/usr/bin/env bash
# faults.sh - a file system that fails at one call is never taken for a folder that is empty or a
# file that is missing: a run goes on from its checkpoint, or says which file cannot be read.
# scripts/dev/hunt.sh tries many more.
source tests/e2e/lib/common.sh
make_data "$SCRATCH/data" 4 1
make_config
long=(train.epochs=1)
settings half "${long[@]}" train.max_steps=3
expect "half" 0 run 1 train "${sets[@]}"
cp -r "$SCRATCH/half" "$SCRATCH/run"

# fails FILES CALL ERRNO RUN KEY=VALUE... - trains where call number CALL on such files fails.
fails()
{
    settings "${@:4}"
    SLOW_FILES_MATCH=$1 SLOW_FILES_SKIP=$2 SLOW_FILES_ERRNO=$3 LD_PRELOAD=$PWD/build/slow_files.so \
        timeout 60 "$CONVOY" train "${sets[@]}" > "$out" 2>&1
    code=$?
}

for ((call = 0; call < 24; call++)); do
    rm -rf "$SCRATCH/run"
    cp -r "$SCRATCH/half" "$SCRATCH/run"
    fails /checkpoints "$call" 5 run "${long[@]}"
    case $code in
    0) grep -qE 'resumed from|falling back to' "$out" || broken_run "call $call: begun anew" ;;
    65 | 74) expect_one_error "call $call" "Input/output error" ;;
    *) broken_run "call $call: exit code $code" ;;
    esac
done
SLOW_FILES_MATCH=metrics SLOW_FILES_SKIP=3 SLOW_FILES_ERRNO=5 SLOW_FILES_FAIL=1000 \
    LD_PRELOAD=$PWD/build/slow_files.so expect "top" 65 "$CONVOY" top "$SCRATCH/half" --once
expect_one_error "top" "$SCRATCH/half/metrics.jsonl: cannot read: Input/output error"
fails small.yaml 0 116 config
((code == 64)) || [[ $code == 0 ]] || broken_run "config: exit code $code"
expect_text "config" 0 "no such config file"
exit "$failed"
