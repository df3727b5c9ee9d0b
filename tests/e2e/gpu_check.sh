#!/usr/bin/env bash
# gpu_check.sh - scripts/gpu_check.sh tells checks apart that pass, fail, hang, are skipped or come
# too late, and what it brings back is what scripts/gpu/gpu_learn.py writes into the pages.
# shellcheck disable=SC2154 # what is sourced sets it
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh

command -v python3 > /dev/null || { echo "no python3"; exit 77; }
emulated || { echo "for the emulated device"; exit 77; }

# ---- the machinery ----
mkdir "$SCRATCH/path" # where python3 finds no PyTorch
printf '#!/bin/sh\nexit 1\n' > "$SCRATCH/path/python3"
chmod +x "$SCRATCH/path/python3"
REHEARSE=h200 PATH=$SCRATCH/path:$PATH expect "branches" 1 \
    scripts/gpu_check.sh branches "$SCRATCH/results"
expect_text "branches" some "PASSED   passes "
expect_text "branches" some "FAILED   fails: status 2"
expect_text "branches" some "FAILED   hangs: status 124"
expect_text "branches" some "skip peers: no PyTorch here"
expect_text "branches" some "NOT RUN  late: no time left"
expect_text "branches" some "PASSED   beside "
expect_text "branches" some "FAILED   fails_beside: status 2"
expect_text "branches" 1 "2 passed, 4 failed, 1 skipped"
expect "again without a limit" 64 scripts/gpu_check.sh again "$SCRATCH/results"
REHEARSE=h200 AGAIN=branches expect "again" 1 scripts/gpu_check.sh again "$SCRATCH/results" 60
expect_text "again" 1 "0 passed, 4 failed, 0 skipped"
tar -xOf "$SCRATCH/results/gpu_check_again.tar.gz" again/checks.csv | cut -d , -f 1,2 |
    sort > "$SCRATCH/repeated"
printf '%s\n' fails,2 fails_beside,2 hangs,124 | diff - "$SCRATCH/repeated" ||
    broken "again did not repeat what had failed"
rm "$SCRATCH/results/scratch/again/failed.txt" # as if all had passed
REHEARSE=h200 AGAIN=branches expect "nothing left" 0 \
    scripts/gpu_check.sh again "$SCRATCH/results" 60
expect_text "nothing left" 1 "nothing of branches is left to repeat"
expect "learning a rehearsal" 1 python3 scripts/gpu/gpu_learn.py \
    "$SCRATCH/results" --root "$SCRATCH"
expect_text "learning a rehearsal" 1 "a rehearsal is no measurement"
REHEARSE=h200 ONLY='pass*' expect "one check" 0 scripts/gpu_check.sh branches "$SCRATCH/results"
expect_text "one check" 1 "1 passed, 0 failed, 0 skipped"

# ---- what passes the second time counts, and what then has time ----
mkdir -p "$SCRATCH/twice/first" "$SCRATCH/twice/again" "$SCRATCH/both"
printf 'eager_bf16,1,1700000000,1700000009\nnetworks,0,1700000009,1700000019\n' \
    > "$SCRATCH/twice/first/checks.csv"
printf 'NOT RUN  nodes_bf16: no time left\nNOT RUN  from_files: no time left\n' \
    > "$SCRATCH/twice/first/summary.txt"
printf 'eager_bf16,0,1700000100,1700000109\nnodes_bf16,0,1700000109,1700000119\n' \
    > "$SCRATCH/twice/again/checks.csv"
for part in first again; do
    tar -czf "$SCRATCH/both/gpu_check_$part.tar.gz" -C "$SCRATCH/twice" "$part"
done
mkdir -p "$SCRATCH/pages/configs/gpus"
cp -r docs "$SCRATCH/pages"
expect "learning both" 0 python3 scripts/gpu/gpu_learn.py "$SCRATCH/both" --root "$SCRATCH/pages"
tr '\n' ' ' < "$SCRATCH/pages/docs/gpu.md" | grep -qF "passed: 3, failed: 0, not run: 1." ||
    broken "the second time does not count"

# ---- what is learned: a step of two layers, by numbers whose results are known ----
tree=$SCRATCH/tree part=$SCRATCH/correct results=$SCRATCH/learn
mkdir -p "$tree/configs/gpus" "$part" "$results" "$SCRATCH/plans"
cp -r docs "$tree"
cat > "$part/layers_bf16.csv" << 'END'
layer,operation,by,ms,bytes,flops
layer1.0.conv1,conv2d,cudnn engine 47,1.003000,800000000,62000000000
bn1,batchnorm,bn_rows,0.603000,880000000,0
END
cat > "$part/nodes_bf16.json" << 'END'
{"what": "resnet50", "batch": 256, "ceilings": {"device": "x", "copy_gb_s": 2000,
"product_tflop_s": 500}, "figures": {"step_ms": "1.606"},
"rows": [["conv2d", 1.003, 62.5, 61.8, 797.6], ["batchnorm", 0.603, 37.5, 0, 1459.4]]}
END
cat > "$part/ncu_bf16.csv" << 'END'
==PROF== Connected to process 7
"ID","thread Domain:Push/Pop_Range:PL_Type","Metric Name","Metric Unit","Metric Value"
"0","""<default>:convoy"" ""<default>:bn1""","dram__bytes_read.sum","Mbyte","1,000.5"
"0","""<default>:convoy"" ""<default>:bn1""","dram__bytes_write.sum","Mbyte","400"
END
cat > "$part/peers_bf16.json" << 'END'
[{"model": "resnet50", "size": 224, "batch": 256, "precision": "bf16",
"medians": {"pytorch eager": 1000, "convoy": 1500},
"windows": [["convoy", 1500, 1700000000, 1700000010], ["pytorch eager", 1000, 1700000020,
1700000030]]}]
END
cat > "$part/peers_autotune.json" << 'END'
[{"model": "resnet50", "size": 224, "batch": 256, "precision": "bf16",
"medians": {"pytorch autotune": 1200}, "windows": []}]
END
cat > "$part/matrix_bf16.json" << 'END'
{"what": "resnet50", "rates": {"": [100, 102, 101], "device.fuse=none": [90]},
"windows": [], "left_out": {"device.nonsense=1": "unknown key"}}
END
cat > "$part/gpu.csv" << 'END'
timestamp, clocks.current.sm [MHz], ..., power.draw [W], temperature.gpu, memory.used [MiB]
2023/11/14 22:13:25.000, 1980, 3201, 600.00, 50, 20000
2023/11/14 22:13:45.000, 1980, 3201, 300.00, 50, 21000
END
echo '{"deviceName": "NVIDIA H100 80GB HBM3"}' > "$part/device.json"
printf 'device,0,1700000000.5,1700000001.5\nops_fp16,1,1700000002,1700000009\n' > "$part/checks.csv"
echo 'skip ncu_fp16: not installed' > "$part/summary.txt"
echo plans > "$SCRATCH/plans/cudnn-91900-sm90-132-timed.plans"
echo other > "$SCRATCH/plans/other.plans"
tar -czf "$results/gpu_check_correct.tar.gz" -C "$SCRATCH" correct
tar -czf "$results/gpu_plans_correct.tar.gz" -C "$SCRATCH" plans
expect "learning" 0 python3 scripts/gpu/gpu_learn.py "$results" --root "$tree"
# conv: 0.8 GB at 80 % of 2000 GB/s is 0.5 ms and 3 us more; norm: 0.88 GB at 88 % the same
expect_text "learning" 1 "1.003 ms, budget    0.503, over    0.500; cudnn engine 47"
expect_text "learning" 1 "0.603 ms, budget    0.503, over    0.100; bn_rows"
expect_text "learning" 1 "benchmarks.md: runs not measured"
for line in "Measured on NVIDIA H100 80GB HBM3 on 2023-11-14" \
    "checks passed: 1, failed: 1 (ops_fp16), not run: 1."; do
    tr '\n' ' ' < "$tree/docs/gpu.md" | grep -qF "$line" || broken "gpu.md has no: $line"
done
for line in "| ncu_fp16 | not run | not installed |" \
    "| 0.603 | 0.503 | 0.100 | 880.0 | 1,400.5 |"; do
    grep -qF "$line" "$tree/docs/laboratory/gpu-measurements.md" ||
        broken "gpu-measurements.md has no: $line"
done
for line in "convoy | 1,500 | **1.25** | 0.400 |" "pytorch eager | 1,000 |  | 0.300 |" \
    '`device.fuse=none` | 90 | 0.891 |' '`device.nonsense=1` | left out | unknown key |'; do
    grep -qF "$line" "$tree/docs/laboratory/benchmarks.md" || broken "benchmarks.md has no: $line"
done
grep -q "No measurement has been made yet" "$tree/docs/laboratory/benchmarks.md" ||
    broken "what was not measured was written over"
[[ $(ls "$tree/configs/gpus") == cudnn-91900-sm90-132-timed.plans ]] || broken "not the plans alone"
cp -r "$tree" "$SCRATCH/again"
expect "learning again" 0 python3 scripts/gpu/gpu_learn.py "$results" --root "$SCRATCH/again"
diff -r "$tree" "$SCRATCH/again" || broken "a second reading changes something"
mkdir -p "$SCRATCH/another/speed"
echo '{"deviceName": "NVIDIA H200"}' > "$SCRATCH/another/speed/device.json"
tar -czf "$results/gpu_check_speed.tar.gz" -C "$SCRATCH/another" speed
expect "two GPUs" 1 python3 scripts/gpu/gpu_learn.py "$results" --root "$tree"
expect_text "two GPUs" 1 "the parts ran on different GPUs"
expect "nothing to learn" 1 python3 scripts/gpu/gpu_learn.py "$tree" --root "$tree"
expect_text "nothing to learn" 1 "has no gpu_check_"
exit "$failed"
