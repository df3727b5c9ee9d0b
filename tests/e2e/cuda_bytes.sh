#!/usr/bin/env bash
# cuda_bytes.sh - what a step moves on a GPU that is not here: convoy inspect model NAME --bytes.
source tests/e2e/lib/common.sh
source tests/e2e/lib/cuda.sh

if ! emulated; then
    echo "this wants the emulated device"
    exit 77
fi
# The plain loops that stand for cuDNN want much workspace.
budget=(inspect model resnet50 --bytes --gpu configs/gpus/h200.json device.workspace_mb=8192)

page=docs/laboratory/gpu-measurements.md

# number ROW COLUMN - of the table in $out
number()
{
    awk -v row="$1" -v column="$2" '$1 == row { print $column }' "$out"
}

# The page has the table, of which cuDNN decides nothing in bf16: every row is as printed.
expect "bytes in bf16" 0 run 1 "${budget[@]}" train.precision=bf16
expect_text "bytes in bf16" 1 "resnet50 in bf16, 256 images of 224 x 224 pixels per step, on NVIDIA"
expect_text "bytes in bf16" 1 "an estimate, not a measurement"
for row in conv2d conv2d_bwd_data conv2d_bwd_weights batchnorm batchnorm_bwd bn_pool bn_pool_bwd \
    bn_statistics bn_signs bn_signs_bwd update sum; do
    said=$(sed -nE "s/^\| $row \| ([0-9.]+) \| [0-9.]+ \| ([0-9.]+) \| ([0-9.]+) .*/\1 \2 \3/p" \
        "$page")
    printed="$(number "$row" 3) $(number "$row" 5) $(number "$row" 6)"
    [[ $said == "$printed" ]] || broken "$page says of $row ${said:-nothing}, not $printed"
done
whole=$(number sum 3)
expect_text "bytes in bf16" 1 \
    "fused (device.fuse): shortcut 4 of 4 shapes; pool gradient 1 of 1 shapes; signs 5 of 5 shapes;"
expect "bytes in bf16, not fused" 0 run 1 "${budget[@]}" train.precision=bf16 device.fuse=none
grep -q "the sum is $(number sum 3) MB" "$page" ||
    broken_run "$page says another sum than $(number sum 3) of what is not fused"
awk -v a="$whole" -v b="$(number sum 3)" 'BEGIN { exit !(b - a > 23 && b - a < 23.2) }' ||
    broken_run "the stem pooled at once and ends of blocks spare $whole of $(number sum 3) MB"

# Half the images: the same of each, but for weights and the update.
expect "bytes of half a batch" 0 run 1 "${budget[@]}" train.precision=bf16 train.batch_per_rank=128
awk -v a="$whole" -v b="$(number sum 3)" 'BEGIN { exit !(b > a && b < 1.02 * a) }' ||
    broken_run "half a batch moves $(number sum 3) MB an image, the whole $whole"
expect "bytes, fused" 0 run 1 "${budget[@]}" train.precision=fp16
expect_text "bytes, fused" 1 "residual gradient 7 of 7 shapes; gradient 11 of 11"
awk -v a="$whole" -v b="$(number sum 3)" 'BEGIN { exit !(b < 0.82 * a) }' ||
    broken_run "fused it moves $(number sum 3) MB an image, in bf16 $whole"
expect "bytes, not fused" 0 run 1 "${budget[@]}" train.precision=fp16 device.fuse=none
expect_text "bytes, not fused" 1 "fused (device.fuse): nothing"
expect "bytes of two micro-batches" 0 run 1 "${budget[@]}" train.precision=bf16 train.accumulate=2
expect_text "bytes of two micro-batches" 1 "512 images of"

# Attention is a product where cuDNN runs it, and reads nothing twice.
vit=(inspect model deit_tiny_patch16_224 --bytes --gpu configs/gpus/h200.json train.precision=bf16
    train.batch_per_rank=8)
expect "bytes of attention" 0 run 1 "${vit[@]}"
expect_text "bytes of attention" 1 "attention_bwd 1 of 1 shapes; attention 1 of 1 shapes"
cudnns=$(number attention_bwd 3) cudnns_ms=$(number attention_bwd 6)
expect "bytes of our attention" 0 run 1 "${vit[@]}" device.attention=own
awk -v a="$cudnns" -v b="$(number attention_bwd 3)" 'BEGIN { exit !(a < b) }' ||
    broken_run "cuDNN's attention moves $cudnns MB an image, ours $(number attention_bwd 3)"
awk -v a="$cudnns_ms" -v b="$(number attention_bwd 6)" 'BEGIN { exit !(4 * a < b) }' ||
    broken_run "cuDNN's attention is expected in $cudnns_ms ms, ours in $(number attention_bwd 6)"

# Text by tokens. Its tied words are read by the head and by the embedding, and dropped attention is
# our own.
text=(inspect model roberta_tiny --bytes --gpu configs/gpus/h200.json train.precision=bf16
    train.batch_per_rank=8)
expect "bytes of text" 0 run 1 "${text[@]}" data.tokens=128
expect_text "bytes of text" 1 "roberta_tiny in bf16, 8 sequences of 128 tokens per step"
expect_text "bytes of text" 1 "kB/token"
for row in embed embed_bwd pick pick_bwd attention attention_bwd softmax_xent; do
    awk -v row="$row" '$1 == row && $3 > 0 { found = 1 } END { exit !found }' "$out" ||
        broken_run "bytes of text: $row moves nothing"
done
short=$(number attention_bwd 4) embedded=$(number embed 3)
expect "bytes of longer text" 0 run 1 "${text[@]}" data.tokens=512
awk -v a="$short" -v b="$(number attention_bwd 4)" 'BEGIN { exit !(b > 3.9 * a && b < 4.1 * a) }' ||
    broken_run "attention takes $short MFLOP of 128 tokens, of 512 $(number attention_bwd 4)"
awk -v a="$embedded" -v b="$(number embed 3)" 'BEGIN { exit !(a > 0 && b < 1.1 * a) }' ||
    broken_run "a token embeds by $embedded kB of 128, of 512 by $(number embed 3)"

# Images as the network was published with, or as they are asked for.
expect "bytes of small images" 0 run 1 inspect model resnet20 --bytes --gpu configs/gpus/a100.json
expect_text "bytes of small images" 1 "256 images of 32 x 32 pixels"
expect "bytes of other images" 0 run 1 inspect model resnet20 --bytes --gpu configs/gpus/t4.json \
    --image-size 48 --classes 7 train.precision=fp32 train.batch_per_rank=4
expect_text "bytes of other images" 1 "resnet20 in fp32, 4 images of 48 x 48 pixels"

expect_error "no GPU named" 64 "--bytes requires --gpu" 1 inspect model resnet50 --bytes
expect_error "a GPU for nothing" 64 "--gpu requires --bytes" 1 inspect model resnet50 \
    --gpu configs/gpus/h200.json
expect_error "two answers" 64 "give only one of --dot" 1 "${budget[@]}" --dot
expect_error "no such file" 65 "none.json" 1 inspect model resnet50 --bytes --gpu none.json
sed 's/NVIDIA H200/NVIDIA H2000/' configs/gpus/h200.json > "$SCRATCH/odd.json"
expect_error "no rates" 65 "the rates of this GPU in" 1 \
    inspect model resnet50 --bytes --gpu "$SCRATCH/odd.json" train.batch_per_rank=2
expect_error "two passes" 64 "leave optimizer.sam_rho out" 1 "${budget[@]}" optimizer.sam_rho=0.1
exit "$failed"
