#!/usr/bin/env bash
# decode.sh - every way to decode gives the same batches, over epochs in which seek indices are made
# and used; views of a list are made as it says, and a list that cannot be
# followed ends with one line.
source tests/e2e/lib/common.sh
"$tools"/make_shapes "$SCRATCH/data" --train 3 --val 1 --size 240 || broken "make_shapes failed"
make_config
image=$SCRATCH/data/train/star/0000.jpg

# checksums NAME KEY=VALUE... - of six steps of 24, almost five epochs of 30 images,
# of 128 pixels and more.
checksums()
{
    local name=$1
    shift
    settings bench data.augment=imagenet data.image_size=64 data.eval_resize=64 \
        train.batch_per_rank=24 "$@"
    expect "checksums $name" 0 run 1 bench loader "${sets[@]}" --crc --steps 6
    grep '^step ' "$out" > "$SCRATCH/$name"
    [[ $(wc -l < "$SCRATCH/$name") == 6 ]] || broken_run "checksums $name: expected 6 lines"
}

checksums stock data.decoder=stock
checksums fast data.seek_index=off
checksums columns
checksums rows data.seek_index_mb=1
checksums cubic data.interpolation=bicubic
for name in fast columns rows; do
    diff "$SCRATCH/stock" "$SCRATCH/$name" > "$out" ||
        broken_run "$name: other checksums than libjpeg's"
done
! diff "$SCRATCH/stock" "$SCRATCH/cubic" > "$out" ||
    broken "bicubic gives the checksums of bilinear"

settings bench
expect "bench decode" 0 run 1 bench decode "${sets[@]}" --steps 2 --set data.image_size=64 \
    --set data.eval_resize=64
for line in images_per_s_per_thread header_ms decode_ms resize_ms augment_ms; do
    grep -q "^$line [0-9.]*$" "$out" || broken_run "bench decode: no line $line"
done
grep -q '^fast_decoder_percent 100' "$out" || broken_run "bench decode: our decoder was not used"
grep -q '^seek_index_bytes_per_image [1-9]' "$out" ||
    broken_run "bench decode: no seek index was made"

# Two views of 16 pixels; the second is the mirror image of the first.
view="box 3 5 40 30 resize 16 16 window 0 0 size 16 flip"
printf '%s\t%s\n' "$view 0" "$image" "$view 1" "$image" > "$SCRATCH/views"
expect "replay" 0 run 1 bench decode --replay "$SCRATCH/views" --dump "$SCRATCH/pixels"
[[ $(stat -c %s "$SCRATCH/pixels") == $((2 * 16 * 16 * 3)) ]] ||
    broken "replay: $(stat -c %s "$SCRATCH/pixels") bytes"
pixel() { od -An -v -tu1 -j "$1" -N 3 "$SCRATCH/pixels"; }
[[ $(pixel 0) == "$(pixel $((16 * 16 * 3 + 15 * 3)))" ]] ||
    broken "replay: the second view is not the mirror image of the first"

expect_error "replay without dump" 64 "--replay requires --dump" 1 bench decode \
    --replay "$SCRATCH/views"
echo "$view 1 $image" >> "$SCRATCH/views"
expect_error "replay without path" 65 "$SCRATCH/views:3: the line does not end in a tab and" \
    1 bench decode --replay "$SCRATCH/views" --dump "$SCRATCH/pixels"
printf '%s\t%s\n' "$view one" "$image" > "$SCRATCH/views"
expect_error "replay of nonsense" 65 "$SCRATCH/views:1: replay: flip takes" 1 bench decode \
    --replay "$SCRATCH/views" --dump "$SCRATCH/pixels"
printf '%s\t%s\n' "${view/40/4000} 0" "$image" > "$SCRATCH/views"
expect_error "replay outside the image" 65 "$image: the box exceeds the image" 1 bench decode \
    --replay "$SCRATCH/views" --dump "$SCRATCH/pixels"
expect_error "unknown decoder" 64 "data.decoder" 1 bench decode --set data.decoder=fats
expect_error "unknown interpolation" 64 "data.interpolation" 1 bench decode \
    --set data.interpolation=lanczos
exit "$failed"
